/* The floor of `send`: writes its second argument and Enter into the FIFO that
 * its first names. */

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

int main(int argc, char **argv)
{
    int fifo = argc == 3 ? open(argv[1], O_WRONLY | O_NONBLOCK) : -1;
    struct iovec parts[2] = {{argv[2], fifo < 0 ? 0 : strlen(argv[2])}, {"\r", 1}};
    return fifo < 0 || writev(fifo, parts, 2) < 1;
}
