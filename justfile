# Where `install` puts things: PREFIX is where they will be found, and DESTDIR
# a folder that stands for the root while a package is made.
PREFIX := env('PREFIX', '/usr/local')
DESTDIR := env('DESTDIR', '')

# The same file as `dist` leaves it, for whatever folder a recipe runs in.
static := justfile_directory() / 'dist/nbs'

[private]
default:
    @just --list --unsorted

# What a change must pass on a developer's machine.
check:
    cargo fmt --check
    cargo clippy --all-targets -- --deny warnings
    bash tests/run

# The tests; words after `test` go to cargo.
test *words:
    bash tests/run {{ words }}

# Takes the help texts as they are now for those that should be; read the diff.
bless:
    NBS_BLESS=1 cargo test --test it -- help:: blessed

# The static file dist/nbs, built and proved.
dist:
    tests/dist/build

# The integration tests against the static file.
dist-test *words: dist
    NBS_UNDER_TEST='{{ static }}' cargo test --test it {{ words }}

# The randomised unit tests, many more rounds than `test` has.
fuzz rounds='20000':
    NBS_ROUNDS={{ rounds }} cargo test --release --bin nbs

# Puts dist/nbs and its links into $DESTDIR$PREFIX/bin.
install:
    tests/dist/prove '{{ static }}'
    install -D -m 755 '{{ static }}' '{{ DESTDIR }}{{ PREFIX }}/bin/nbs'
    '{{ static }}' --list | xargs -I LINK ln -sf nbs '{{ DESTDIR }}{{ PREFIX }}/bin/LINK'
