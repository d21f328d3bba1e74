/* The floor of a session: the least that the kernel allows for a program on a
 * terminal of its own, with typed input from a FIFO and output in a file.
 *
 * Usage: relay DIR FILES STARTS PROGRAM [ARGUMENT...]
 *
 * Makes DIR/fifo and DIR/log, starts the program, and returns once it is
 * started; what stays is one process in one poll loop, whose PID is printed.
 * With NOWHERE set the output is read and thrown away. FILES and STARTS are 0, or
 * how many more files it is to make in DIR, and how often to start itself more. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

/* What a session costs that has more files, and more starts of programs. */
static void do_more(const char *folder, const char *itself, long files, long starts)
{
    char path[4096];
    for (; files > 0; files--) {
        snprintf(path, sizeof path, "%s/file%ld", folder, files);
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (write(file, "text", 4) != 4)
            fail(path);
        close(file);
    }
    for (; starts > 0; starts--) {
        pid_t child = vfork();
        if (child == 0) {
            execl(itself, itself, NULL);
            _exit(127);
        }
        waitpid(child, NULL, 0);
    }
}

static void serve(int master, int fifo, int log)
{
    static char bytes[4096];
    struct pollfd ends[2] = {{master, POLLIN, 0}, {fifo, POLLIN, 0}};
    for (;;) {
        if (poll(ends, 2, -1) < 0)
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

int main(int argc, char **argv)
{
    int ready[2];
    char path[4096], word[32];
    if (argc < 5 || pipe2(ready, O_CLOEXEC))
        return 1;
    pid_t relay = fork();
    if (relay) {
        close(ready[1]);
        ssize_t count = read(ready[0], word, sizeof word);
        if (count <= 0)
            return 1;
        return write(1, word, count) != count;
    }
    setsid();
    do_more(argv[1], argv[0], atol(argv[2]), atol(argv[3]));
    snprintf(path, sizeof path, "%s/fifo", argv[1]);
    if (mkfifo(path, 0600))
        fail(path);
    int fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int log = -1;
    if (!getenv("NOWHERE")) {
        snprintf(path, sizeof path, "%s/log", argv[1]);
        log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    int unlocked = 0, number;
    struct winsize size = {24, 80, 0, 0};
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) || ioctl(master, TIOCGPTN, &number))
        fail("ptmx");
    ioctl(master, TIOCSWINSZ, &size);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    int slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    pid_t child = vfork();
    if (child == 0) {
        setsid();
        ioctl(slave, TIOCSCTTY, 0);
        for (number = 0; number < 3; number++)
            dup2(slave, number);
        execvp(argv[4], argv + 4);
        _exit(127);
    }
    close(slave);
    int nowhere = open("/dev/null", O_RDWR);
    snprintf(word, sizeof word, "%d\n", getpid());
    write(ready[1], word, strlen(word));
    close(ready[1]);
    for (number = 0; number < 3; number++)
        dup2(nowhere, number);
    close(nowhere);
    serve(master, fifo, log);
    waitpid(child, NULL, 0);
    return 0;
}
