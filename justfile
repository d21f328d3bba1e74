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
    .ci/dependencies
    cargo fmt --check
    cargo clippy --all-targets -- --deny warnings
    bash tests/run

# The tests; words after `test` go to cargo.
test *words:
    bash tests/run {{ words }}

# What a command of nbs-ts touches, in half a minute: `just check-verb read-new`. What fails says
# what is still to be written where; `just check` is for the rest.
check-verb name:
    cargo fmt --check
    cargo test --quiet --bin nbs -- applets:: call:: help::
    cargo test --quiet --test it -- help:: manual:: documents::house bad_arguments every_command_that a_stopped_relay {{ replace(name, '-', '_') }}:: ::{{ replace(name, '-', '_') }}_

# Takes the help texts as they are now for those that should be; read the diff.
bless:
    NBS_BLESS=1 cargo test --test it -- help:: blessed

# The static file dist/nbs-ARCH, built and proved: x86_64 or aarch64, on either. This machine's
# is dist/nbs, too.
dist arch=arch():
    tests/dist/build {{ arch }}

# The integration tests against the static file.
dist-test *words: dist
    NBS_UNDER_TEST='{{ static }}' bash tests/run --test it {{ words }}

# How fast the static file is, against the machine's floor and tmux; `--quick`
# takes seconds, and its figures are worth little. Without words also what a `run`
# takes by a library, beside others.
bench *words: dist
    tests/bench/bench {{ words }}
    {{ if words == "" { "tests/bench/libraries" } else { "true" } }}

# The randomised tests, many more rounds than `test` has.
fuzz rounds='20000':
    NBS_ROUNDS={{ rounds }} cargo test --bin nbs
    NBS_ROUNDS={{ rounds }} cargo test --test it -- fuzz:: hostile::

# Kills, stops and refuses at random, and looks whether all is still in order;
# NBS_SEED=17 repeats a round that failed.
torture rounds='1000':
    NBS_ROUNDS={{ rounds }} cargo test --test it -- torture:: lost:: --nocapture

# Makes the picture of the README: the screen of a real session.
picture:
    cargo build
    tests/picture "${CARGO_TARGET_DIR:-target}/debug/nbs" > tests/picture.svg

# Uses sessions in all ways for so long; fails if memory or descriptors grow.
soak minutes='60':
    cargo build
    tests/soak {{ minutes }}

# Asks programs that are heavy to install what the tests ask the light ones.
programs:
    tests/programs/run

# Does twenty tasks through nbs-mcp by the official SDKs' clients, which it gets
# from their registries.
sdks:
    tests/sdks/run

# Uses real coding agents in sessions, with a model of our own; words after it: FILE AGENT...
agents *words:
    tests/agents/run {{ words }}

# Goes through menus of vttest in sessions, and compares each screen; needs vttest.
vttest *words:
    cargo build
    tests/terminal/vttest {{ words }}

# Compares screens of programs in nbs, in xterm and in tmux; needs xterm, Xvfb and tmux.
screens *words:
    cargo build
    tests/terminal/programs {{ words }}

# Tries the libraries for Python and TypeScript, with each Python and the node that are installed.
clients:
    cargo build
    tests/clients/run

# The adapters for frameworks of agents, with those frameworks, which it gets.
adapters:
    cargo build
    tests/clients/adapters

# Uses nbs-page by Debian's chromium, which has to be there; leaves pictures of it in a folder, if
# one is named.
browser pictures='':
    tests/page/run target/debug/nbs {{ pictures }}

# Tries dist/nbs in a root folder of its own, as a container has one.
container:
    tests/dist/container '{{ static }}'

# The same in containers of podman, on images that buildah makes of tests/dist/Containerfile.
engines:
    tests/dist/engines '{{ static }}'

# Boots an emulated machine (x86_64 or aarch64) that holds dist/nbs-ARCH, and runs as many of the
# tests there as it can; `--smoke` only what the file promises of a kernel, `--reboot` what becomes
# of sessions when the power is cut, `--kernel=6.12` another one.
machine *words:
    tests/machine/boot {{ words }}

# Programs, files and ports over each transport that can be had here, each cut fifty times;
# `--only=ssh`, `--zeros=100 --noise=100 --cuts=5 --files=1000` for less.
transports *words:
    tests/cluster/transports {{ words }} '{{ static }}'

# Leaves archives, wheels and Debian packages for both architectures in dist/, and SHA256SUMS.
release:
    tests/dist/release

# Installs each of these, and uses it.
release-test:
    tests/dist/installed

# Makes the release of this commit twice, and compares.
reproduce:
    tests/dist/reproduce

# Puts dist/nbs, its links, man pages and completions below $DESTDIR$PREFIX.
install:
    # As large as `dist` makes it at most.
    tests/dist/prove '{{ static }}' 2000000
    '{{ static }}' --install --force --prefix='{{ DESTDIR }}{{ PREFIX }}'
