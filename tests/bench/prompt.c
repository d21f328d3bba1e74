/* The floor of `run`: how long a bash on a terminal takes from a command typed at
 * its prompt to its next prompt. Prints N times in nanoseconds, a line each.
 *
 * Usage: prompt N COMMAND */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * UINT64_C(1000000000) + time.tv_nsec;
}

/* Reads until the prompt, which no command's echo ends with; a startup file may
 * have put a mark behind it. */
static void await_prompt(int master)
{
    static char text[8192];
    size_t length = 0;
    for (;;) {
        ssize_t count = read(master, text + length, sizeof text - length);
        if (count <= 0)
            exit(1);
        length += count;
        if (length >= 2 && !memcmp(text + length - 2, "@@", 2))
            return;
        if (length && text[length - 1] == '\a' && memmem(text, length, "\033]133;B;", 8))
            return;
        if (length > sizeof text / 2)
            length = 0;
    }
}

int main(int argc, char **argv)
{
    int unlocked = 0, number;
    char path[64];
    struct winsize size = {24, 80, 0, 0};
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (argc < 3 || ioctl(master, TIOCSPTLCK, &unlocked) || ioctl(master, TIOCGPTN, &number))
        return 1;
    ioctl(master, TIOCSWINSZ, &size);
    snprintf(path, sizeof path, "/dev/pts/%d", number);
    if (fork() == 0) {
        setsid();
        int slave = open(path, O_RDWR);
        for (number = 0; number < 3; number++)
            dup2(slave, number);
        setenv("PS1", "@@", 1);
        setenv("TERM", "xterm-256color", 1);
        unsetenv("PROMPT_COMMAND");
        unsetenv("HISTFILE");
        execlp("bash", "bash", "--norc", "--noprofile", "-i", NULL);
        _exit(127);
    }
    await_prompt(master);
    for (long left = atol(argv[1]); left > 0; left--) {
        uint64_t start = now();
        write(master, argv[2], strlen(argv[2]));
        write(master, "\r", 1);
        await_prompt(master);
        printf("%llu\n", (unsigned long long)(now() - start));
    }
    return 0;
}
