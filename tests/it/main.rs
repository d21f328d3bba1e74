//! nbs as its users call it: the built file, real PTYs, real programs.
//!
//! Every test has a state directory of its own and leaves no process behind. The file under test is the one
//! that cargo built, or `$NBS_UNDER_TEST`.

mod support;

mod admission; // whom the sockets of nbs serve: nobody who is confined
mod ask; // ask: one program after another, and their answers
mod asking; // run: a command that asks, and one that does not
mod attached; // attach --interactive: a person at a session
mod cast; // create --record, cast
mod confined; // --write-root: where a session may write, and nowhere else
mod crash; // what is killed, filled, emptied and taken away
mod doctor; // doctor: what is always true, and what is told where it is not
mod documents; // the README and the reference: what they show is run
mod events; // every end, told once and truly; gc
mod exit_codes; // the shortest way to each code, and the line that goes with it
mod fuzz; // calls that nobody would make
mod glance; // list --long, report: what each session does
mod help; // what the program says of itself, word for word
mod helper; // the daemon, its keepers, and sessions through it
mod history; // history: what the shells of a session executed
mod hooks; // hooks: what makes agents report, put into their settings
mod hostile; // other users, planted files, escapes, strange environments
mod input; // send: order, wholeness, limits
mod integrate; // a shell inside the session's own, taught to report
mod jail; // --read-root, --no-network, --hide-env: what a session reads, reaches and knows
mod keys; // key, eof, send --paste
mod kill; // who dies, who does not, and how fast
mod launch;
mod left; // nbs-launch-agent: the line, the environment, every byte
mod lifecycle; // create, status, list, find, gc
mod limits; // timeout, idle-timeout, owner
mod lost; // the same, while whoever is between is killed
mod machines; // sessions on other machines
mod manual; // JSON, man pages and completions, all made from the help
mod max_log; // create --max-log: the log within its bound, and its readers
mod mcp; // nbs-mcp: every message, and what a client may do wrong
mod multicall; // nbs itself: names, links, --install
mod notify; // notify: a person is told of each event once
mod output; // read, read-new, attach: every byte, once
mod page; // nbs-page: who may, what is told, and clients of every kind
mod person; // a person's terminal, for attach --interactive and top
mod places; // ensure, pwd, --inherit-cwd
mod program_status; // what programs say of themselves (OSC 7501), their notices; report
mod programs; // ask: real programs through one table
mod queries; // what programs ask of a terminal, and its answers
mod races; // twenty at once
mod resize; // resize, and what attach --json tells of it and all else
mod restart; // restart: what ran before, once more
mod rules; // what the screens of coding agents tell, and rules of one's own
mod run; // a command in a shell: its output, its code, and nothing else
mod sandboxed; // a sandbox that refuses sockets
mod screen; // screen, render, wait --stable: as tmux shows it
mod secrets; // send --secret-fd and --secret-stdin
mod shell; // the interactive shell: its completions and the user's own settings
mod shells; // every shell through one table of what run promises
mod skill; // the page that teaches agents, every line of it run
mod stopped; // whatever is stopped or held: every call ends, and says so
mod submit; // send --submit and answer: texts for programs that read keys one by one
mod terminal; // what the terminal is doing, by the kernel's word
mod tmux; // nbs tmux: what programs that run tmux depend on
mod top; // top: keys in, screens compared
mod torture; // whoever is killed, stopped or refused: nothing is lost
mod wait; // wait: its conditions, and what is no echo
mod waiting; // one answer to "does it wait for input?", of every verb
mod waits; // wait-complete, wait-pattern
mod workers; // nbs-spawn-worker and the monitor
