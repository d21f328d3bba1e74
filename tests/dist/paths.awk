# The paths of functions, from their names as nm and c++filt print them: without the arguments of generics and
# the numbers of crates and closures, which differ between builds.
{
    name = $0
    gsub(/\[[0-9a-f]+\]/, "", name)
    gsub(/\{closure#[0-9]+\}/, "{closure}", name)
    sub(/^OUTLINED_FUNCTION_[0-9]+$/, "OUTLINED_FUNCTION", name)
    gsub(/->/, "", name)
    path = ""
    depth = 0
    # The first bracket of `<Type as Trait>::function` is part of the path.
    first = substr(name, 1, 1) == "<" ? 2 : 1
    for (at = first; at <= length(name); at++) {
        letter = substr(name, at, 1)
        if (letter == "<")
            depth++
        else if (letter == ">")
            depth -= depth > 0
        else if (!depth)
            path = path letter
    }
    gsub(/::(::)+/, "::", path)
    sub(/(::)+$/, "", path)
    print path
}
