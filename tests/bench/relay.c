/* The floor of a session: the least that the kernel allows for a program on a
 * terminal of its own, with typed input from a FIFO and output in a file.
 *
 * Usage: relay [-s] DIR PROGRAM [ARGUMENT...]
 *
 * Makes DIR/fifo and DIR/log, starts the program, and returns once it is
 * started; what stays is one process in one poll loop, whose PID is printed.
 * With NOWHERE set the output is read and thrown away.
 *
 * With -s the least that a session of nbs can be: DIR/session has also the other
 * files that programs look for, a socket, and a lock that is held from its
 * beginning; it has its name only when it is whole, and the program does not begin
 * before. What serves it is a program of its own, and so is what waits on the
 * terminal for the word to go and then becomes the program: no code runs between
 * fork and exec. What can be done at the same time is. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

static void make(int folder, const char *name, const char *text)
{
    int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
        fail(name);
    close(file);
}

static int open_terminal(int *slave)
{
    int unlocked = 0;
    struct winsize size = {24, 80, 0, 0};
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked))
        fail("ptmx");
    ioctl(master, TIOCSWINSZ, &size);
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return master;
}

static void serve(int master, int fifo, int log, int socket)
{
    static char bytes[4096];
    struct pollfd ends[3] = {{master, POLLIN, 0}, {fifo, POLLIN, 0}, {socket, POLLIN, 0}};
    for (;;) {
        if (poll(ends, 3, -1) < 0)
            _exit(1);
        if (ends[0].revents) {
            ssize_t count = read(master, bytes, sizeof bytes);
            if (count <= 0)
                return;
            if (log >= 0 && write(log, bytes, count) != count)
                _exit(1);
        }
        if (ends[1].revents) {
            ssize_t count = read(fifo, bytes, sizeof bytes);
            if (count > 0 && write(master, bytes, count) != count)
                _exit(1);
        }
    }
}

/* Tells our PID, and leaves the terminal of who called. */
static void tell(int ready)
{
    char word[32];
    snprintf(word, sizeof word, "%d\n", getpid());
    write(ready, word, strlen(word));
    if (ready > 2)
        close(ready);
    int nowhere = open("/dev/null", O_RDWR);
    for (int number = 0; number < 3; number++)
        dup2(nowhere, number);
    close(nowhere);
}

static int hear(int ready)
{
    char word[32];
    ssize_t count = read(ready, word, sizeof word);
    return count <= 0 || write(1, word, count) != count;
}

static void plain(const char *folder, char **program, int ready)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/fifo", folder);
    if (mkfifo(path, 0600))
        fail(path);
    int fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int log = -1, slave;
    if (!getenv("NOWHERE")) {
        snprintf(path, sizeof path, "%s/log", folder);
        log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    int master = open_terminal(&slave);
    pid_t child = vfork();
    if (child == 0) {
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        for (int number = 0; number < 3; number++)
            dup2(slave, number);
        execvp(program[0], program);
        _exit(127);
    }
    close(slave);
    tell(ready);
    serve(master, fifo, log, -1);
    waitpid(child, NULL, 0);
}

/* As `create`: the folder, the lock, the files; the relay begins meanwhile. */
static int session(const char *folder, char **program)
{
    int talk[2], at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char word[32];
    if (mkdirat(at, ".new", 0700) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk))
        return 1;
    int new = openat(at, ".new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int meta = openat(new, "meta", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flock(meta, LOCK_EX | LOCK_NB))
        return 1;
    pid_t relay = vfork();
    if (relay == 0) {
        dup2(meta, 0);
        dup2(talk[1], 1);
        char *words[256] = {"relay of a session", (char *)folder};
        for (int count = 0; program[count] && count < 250; count++)
            words[count + 2] = program[count];
        execv("/proc/self/exe", words);
        _exit(127);
    }
    close(talk[1]);
    make(new, "command", "serve");
    make(new, "settings", "cwd: /\nboot: 23a2ead4-dcf4-4847-a511-fa0eb35bf0d1\n");
    static const char text[] = "command: serve\nstart: 1774449000\n";
    write(meta, text, sizeof text - 1);
    mkfifoat(new, "fifo", 0600);
    make(new, "log", "");
    snprintf(word, sizeof word, "%d", relay);
    make(new, "daemon_pid", word);
    write(talk[0], ".", 1);
    return hear(talk[0]);
}

/* As the relay of that. */
static void relay_of_session(char **words)
{
    char word[32];
    int slave, number, gate[2];
    setsid();
    int at = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int new = openat(at, ".new", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int master = open_terminal(&slave);
    if (pipe2(gate, O_CLOEXEC))
        fail("pipe");
    pid_t child = vfork();
    if (child == 0) {
        dup2(slave, 0);
        dup2(slave, 1);
        dup2(gate[0], 2);
        words[1] = "child of a session";
        execv("/proc/self/exe", words + 1);
        _exit(127);
    }
    close(slave);
    close(gate[0]);
    struct sockaddr_un address = {AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/sock", new);
    int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(socket_, (struct sockaddr *)&address, sizeof address) || listen(socket_, 128))
        fail("socket");
    snprintf(word, sizeof word, "%d", child);
    make(new, "pid", word);
    ioctl(master, TIOCGPTN, &number);
    snprintf(word, sizeof word, "/dev/pts/%d", number);
    make(new, "slave_pty", word);
    if (read(1, word, 1) != 1)
        _exit(1);
    int fifo = openat(new, "fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int log = openat(new, "log", O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fifo < 0 || log < 0 || renameat(at, ".new", at, "session"))
        fail("session");
    /* Standard input is what holds the lock. */
    int lock = fcntl(0, F_DUPFD_CLOEXEC, 3);
    tell(1);
    if (lock < 0 || write(gate[1], "+", 1) != 1)
        _exit(1);
    serve(master, fifo, log, socket_);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    int ready[2];
    char word;
    if (!strcmp(argv[0], "child of a session")) {
        setsid();
        ioctl(0, TIOCSCTTY, 0);
        if (read(2, &word, 1) != 1)
            return 1;
        dup2(0, 2);
        execvp(argv[1], argv + 1);
        return 127;
    }
    if (!strcmp(argv[0], "relay of a session")) {
        relay_of_session(argv);
        return 0;
    }
    if (argc >= 4 && !strcmp(argv[1], "-s"))
        return session(argv[2], argv + 3);
    if (argc < 3 || pipe2(ready, O_CLOEXEC))
        return 1;
    pid_t relay = fork();
    if (relay) {
        close(ready[1]);
        return hear(ready[0]);
    }
    setsid();
    plain(argv[1], argv + 2, ready[1]);
    return 0;
}
