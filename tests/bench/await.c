/* The floor of waiting: sleeps until the file is written to (inotify(7)). The
 * kernel may take 16 ms to close an inotify instance, and an exit closes it; a
 * child that lives on holds it instead, so that nobody waits for that. */

#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char event[4096];
    int watch = inotify_init();
    if (argc != 2 || inotify_add_watch(watch, argv[1], IN_MODIFY) < 0)
        return 1;
    int alive[2];
    if (pipe(alive))
        return 1;
    if (fork() == 0) {
        /* Until the parent has gone, and a little longer. */
        close(alive[1]);
        for (int number = 0; number < 3; number++)
            close(number);
        read(alive[0], event, 1);
        usleep(20000);
        _exit(0);
    }
    return read(watch, event, sizeof event) <= 0;
}
