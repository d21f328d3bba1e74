"""Ways out of a jail, each tried in a process of its own. Prints the names of those that worked.

A way has worked if its function returns something true. The argument is a file with what to reach.
"""

import ctypes, errno, fcntl, json, mmap, os, platform, resource, signal, socket, struct, subprocess, sys, termios

place = json.load(open(sys.argv[1]))
inside, outside, home, state = place["inside"], place["outside"], place["home"], place["state"]
victim, port, own, other = place["victim"], place["port"], place["own"], place["other"]
key, program = outside + "/key", outside + "/program"
X86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
# The names of calls, with their numbers on x86-64, and on others, where those differ.
CALLS = dict(
    ptrace=(101, 117), mount=(165, 40), pivot_root=(155, 41), chroot=(161, 51), unshare=(272, 97), setns=(308, 268),
    process_vm_readv=(310, 270), process_vm_writev=(311, 271), kcmp=(312, 272), perf=(298, 241), keyctl=(250, 219),
    add_key=(248, 217), request_key=(249, 218), bpf=(321, 280), userfaultfd=(323, 282), finit_module=(313, 273),
    init_module=(175, 105), syslog=(103, 116), acct=(163, 89), swapon=(167, 224), fanotify=(300, 262),
    name_to_handle=(303, 264), open_by_handle=(304, 265), execveat=(322, 281), shmget=(29, 194), msgget=(68, 186),
    semget=(64, 190), mq_open=(240, 180), prlimit=(302, 261), socket=(41, 198), renameat2=(316, 276),
    memfd=(319, 279), clone=(56, 220), reboot=(169, 142), kexec=(246, 104), capset=(126, 91), truncate=(76, 45),
    umount=(166, 39), delete_module=(176, 106), quotactl=(179, 60), iopl=(172, None), mremap=(25, 216),
    pidfd_open=(434, 434), pidfd_getfd=(438, 438), pidfd_signal=(424, 424), clone3=(435, 435), io_uring=(425, 425),
    open_tree=(428, 428), move_mount=(429, 429), fsopen=(430, 430), fspick=(433, 433), mount_setattr=(442, 442),
    process_madvise=(440, 440), openat2=(437, 437), tgkill=(234, 131), setuid=(105, 146),
)


def call(name, *arguments):
    """Its result; an error of the kernel is raised."""
    number = CALLS[name][0 if X86 else 1]
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def text(path):
    return path.encode()


def reached(name, *arguments):
    """Did the kernel look at more than whether this process may?"""
    try:
        call(name, *arguments)
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES, errno.ENOSYS)
    return True


ways = {}


def way(function):
    ways[function.__name__] = function
    return function


def each(name, values, function):
    for value in values:
        ways[f"{name} {value}"] = lambda value=value: function(value)


def read(path):
    return open(path, "rb").read(1)


def opened(path, flags):
    return os.open(path, flags | os.O_NONBLOCK) >= 0


# What is read.

each("read", [key, home + "/.ssh/id", "/etc/shadow", state + "/page.token", other + "/output.log", other + "/secret",
              f"/proc/{victim}/environ", f"/proc/{victim}/maps", f"/proc/{victim}/auxv", f"/proc/{victim}/syscall",
              f"/proc/{victim}/root{key}", f"/proc/{victim}/cwd/key", f"/proc/{victim}/fd/0", f"/proc/self/root{key}",
              f"/proc/{os.getpid()}/cwd/../outside/key", "/proc/1/environ", "/proc/kcore", "/dev/mem", "/dev/kmsg",
              f"{inside}/../outside/key", f"/proc/{victim}/pagemap", f"/proc/{victim}/exe"], read)
each("list", [outside, home, state, state + "/sessions", other, f"/proc/{victim}/map_files", "/root"], os.listdir)
each("read the link", [f"/proc/{victim}/{name}" for name in ("fd/0", "cwd", "exe", "root", "ns/mnt")], os.readlink)
each("execute", [program, f"/proc/{victim}/root{program}", f"{inside}/../outside/program"],
     lambda path: subprocess.run([path]).returncode == 0)


@way
def reopen_a_path_descriptor():
    return read(f"/proc/self/fd/{os.open(key, os.O_PATH)}")


@way
def open_below_a_path_descriptor():
    return os.read(os.open("key", os.O_RDONLY, dir_fd=os.open(outside, os.O_PATH)), 1)


@way
def open_by_openat2():
    return call("openat2", os.open("/", os.O_PATH), text(key), struct.pack("QQQ", 0, 0, 0), 24) >= 0


@way
def read_through_a_link():
    os.symlink(key, inside + f"/link{os.getpid()}")
    return read(inside + f"/link{os.getpid()}")


@way
def read_through_a_hard_link():
    os.link(key, inside + "/hard")
    return read(inside + "/hard")


@way
def link_a_path_descriptor():
    source = os.open(key, os.O_PATH)
    os.link(f"/proc/self/fd/{source}", inside + "/hard2", follow_symlinks=True)
    return True


@way
def move_it_in():
    os.rename(key, inside + "/moved")
    return True


@way
def exchange_it():
    open(inside + "/mine", "w").close()
    return call("renameat2", -100, text(key), -100, text(inside + "/mine"), 2) == 0


@way
def execute_a_path_descriptor():
    child = os.fork()
    if not child:
        try:
            call("execveat", os.open(program, os.O_PATH), b"", None, None, 0x1000)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@way
def have_the_loader_read_it():
    loader = "/lib64/ld-linux-x86-64.so.2" if X86 else "/lib/ld-linux-aarch64.so.1"
    return subprocess.run([loader, program]).returncode == 0


@way
def preload_it():
    return b"cannot be preloaded" not in subprocess.run(
        ["/bin/true"], env={"LD_PRELOAD": program}, stderr=subprocess.PIPE).stderr


@way
def open_it_by_a_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    call("name_to_handle", -100, text(key), handle, ctypes.byref(mount), 0)
    return call("open_by_handle", os.open(inside, os.O_RDONLY), handle, 0) >= 0


@way
def have_a_program_in_memory_read_it():
    made = os.memfd_create("cat")
    os.write(made, open("/bin/cat", "rb").read())
    return subprocess.run([f"/proc/self/fd/{made}", key], pass_fds=[made]).returncode == 0


@way
def enter_it_and_read():
    os.chdir(outside)
    return read("key")


@way
def disks():
    disks = [line.split()[3] for line in open("/proc/partitions").readlines()[2:]]
    return any(opened("/dev/" + disk, os.O_RDONLY) for disk in disks or ["vda"])


# What is written.

each("write", [key, outside + "/new", home + "/.bashrc", home + "/new", "/tmp/.nbs-way-out", "/var/tmp/.nbs-way-out",
               "/dev/shm/.nbs-way-out", "/etc/cron.d/.nbs-way-out", "/var/spool/.nbs-way-out", "/run/.nbs-way-out",
               "/usr/local/bin/.nbs-way-out", own + "/output.log", own + "/exit.json", own + "/run", state + "/new",
               other + "/input.fifo", other + "/exit.json", own + "/input.fifo"],
     lambda path: opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
each("open to write", [f"/proc/{victim}/mem", f"/proc/{victim}/oom_score_adj", "/proc/sys/kernel/core_pattern",
                       "/proc/sysrq-trigger", "/proc/sys/kernel/modprobe", "/sys/power/state", "/dev/mem", "/dev/ptmx",
                       "/dev/net/tun", "/dev/fuse", "/dev/uinput", place["terminal"], "/dev/vsock", "/dev/console",
                       "/dev/loop-control", "/proc/self/uid_map"], lambda path: opened(path, os.O_RDWR))


def planned(path):
    """Makes it below a directory from which programs outside of the session start something."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return opened(path, os.O_WRONLY | os.O_CREAT)


each("plan", [folder + "/.nbs-way-out" for folder in (
    "/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/cron/atjobs", "/var/spool/at", "/var/spool/anacron",
    "/etc/cron.daily", "/etc/systemd/system", "/etc/init.d", "/etc/profile.d", "/run/systemd/system", "/run/udev/rules.d",
    "/run/systemd/transient", home + "/.config/systemd/user", home + "/.config/autostart", home + "/.local/bin",
    home + "/.local/share/dbus-1/services")] + [home + "/.ssh/authorized_keys", home + "/.profile"], planned)


def leave_a_core_outside():
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        os.chdir(outside)
        os.abort()
    return os.WCOREDUMP(os.waitpid(child, 0)[1])


# If the kernel hands cores to a program, as by apport, none is written by the process.
if not read("/proc/sys/kernel/core_pattern") in (b"|", b"@"):
    way(leave_a_core_outside)

ways["truncate"] = lambda: call("truncate", text(key), 0) == 0
ways["remove"] = lambda: os.unlink(key) is None
ways["make a folder"] = lambda: os.mkdir(outside + "/folder") is None
ways["make a fifo"] = lambda: os.mkfifo(outside + "/fifo") is None
ways["make a link"] = lambda: os.symlink("x", outside + "/link") is None
ways["make a device"] = lambda: os.mknod(inside + "/disk", 0o60600, os.makedev(8, 0)) is None
ways["make a memory device"] = lambda: os.mknod(inside + "/memory", 0o20600, os.makedev(1, 1)) is None
ways["read another terminal"] = lambda: opened(place["terminal"], os.O_RDONLY | os.O_NOCTTY)


@way
def move_mine_out():
    open(inside + "/mine2", "w").close()
    os.rename(inside + "/mine2", outside + "/mine2")
    return True


@way
def link_mine_out():
    open(inside + "/mine3", "w").close()
    os.link(inside + "/mine3", outside + "/mine3")
    return True


# What would undo it.

ways["mount"] = lambda: call("mount", b"none", text(inside), b"tmpfs", 0, None) == 0
ways["bind"] = lambda: call("mount", text(outside), text(inside), None, 0x1000, None) == 0
ways["unmount"] = lambda: call("umount", b"/proc", 2) == 0
ways["pivot"] = lambda: call("pivot_root", text(inside), text(inside)) == 0
ways["change the root"] = lambda: call("chroot", text(inside)) == 0
ways["open a tree"] = lambda: call("open_tree", -100, text(outside), 1) >= 0
ways["open a file system"] = lambda: call("fsopen", b"tmpfs", 0) >= 0
ways["pick a file system"] = lambda: call("fspick", -100, b"/proc", 0) >= 0
ways["change a mount"] = lambda: call("mount_setattr", -100, b"/proc", 0, struct.pack("QQQQ", 0, 0, 0, 0), 32) == 0
each("unshare", [0x10000000, 0x20000, 0x20000000, 0x40000000, 0x8000000, 0x4000000, 0x2000000, 0x80],
     lambda flag: call("unshare", flag) == 0)
ways["a child in another namespace"] = lambda: call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) >= 0
ways["another's namespace"] = lambda: call("setns", os.open(f"/proc/{victim}/ns/mnt", os.O_RDONLY), 0) == 0
ways["a pidfd's namespace"] = lambda: call("setns", call("pidfd_open", victim, 0), 0x20000) == 0


def clone3():
    flags = struct.pack("11Q", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
    child = call("clone3", flags, len(flags))
    return child >= 0


ways["clone3"] = clone3
ways["raise a limit"] = lambda: resource.setrlimit(10, (resource.RLIM_INFINITY,) * 2) is None
ways["more capabilities"] = lambda: call(
    "capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *(0xFFFFFFFF,) * 2, 0, 0x1FF, 0x1FF, 0)) == 0
ways["a module"] = lambda: reached("init_module", b"x", 1, b"")
ways["ports of the machine"] = lambda: X86 and call("iopl", 3) == 0
ways["the buffer of the kernel"] = lambda: call("syslog", 10, None, 0) >= 0
ways["accounting"] = lambda: call("acct", None) == 0
ways["Ctrl-Alt-Del"] = lambda: call("reboot", 0xFEE1DEAD, 672274793, 0, None) == 0
ways["another kernel"] = lambda: call("kexec", 0, 0, None, 0) == 0
ways["a key"] = lambda: call("add_key", b"user", b"nbs", b"x", 1, ctypes.c_long(-4)) >= 0
ways["a keyring"] = lambda: call("keyctl", 0, ctypes.c_long(-4), 1) >= 0
ways["a requested key"] = lambda: call("request_key", b"keyring", b"_uid.0", None, ctypes.c_long(-4)) >= 0
ways["io_uring"] = lambda: call("io_uring", 4, ctypes.create_string_buffer(120)) >= 0
ways["bpf"] = lambda: reached("bpf", 0, struct.pack("14I", 2, 4, 4, 1, *(0,) * 10), 56)
ways["faults"] = lambda: call("userfaultfd", 1) >= 0
ways["watch files"] = lambda: call("fanotify", 0x200, 0) >= 0


@way
def count_events_of_another():
    attributes = struct.pack("IIQQQQ", 1, 128, 0, 0, 0, 0) + bytes(88)
    return call("perf", ctypes.create_string_buffer(attributes), victim, -1, -1, 0) >= 0


@way
def type_into_the_terminal():
    fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCSTI, b"\0")
    return True


def machine_code(code):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


# getpid(2), as programs of 32 bits and of the x32 ABI call it.
ways["a call of 32 bits"] = lambda: X86 and machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3") > 0
ways["a call of x32"] = lambda: X86 and machine_code(b"\xb8\x27\0\0\x40\x0f\x05\xc3") > 0

# Programs that do as they are asked by others, by their own rights or by their server's.

each("run", ["sudo -n true", "su -c true", f"mount -t tmpfs none {inside}", "pkexec true", "systemd-run true",
             "systemd-run --user true", "systemctl --user show-environment", "busctl list", "busctl --user list", "crontab -l",
             "at -l", "docker ps", "podman ps", "ssh-add -l", "xset q", "loginctl list-sessions", "resolvectl status"],
     lambda words: subprocess.run(words.split(), timeout=20).returncode == 0)

# Other processes.

ways["trace"] = lambda: call("ptrace", 16, victim, 0, 0) == 0
ways["seize"] = lambda: call("ptrace", 0x4206, victim, 0, 0) == 0
ways["another's descriptor"] = lambda: call("pidfd_getfd", call("pidfd_open", victim, 0), 0, 0) >= 0
ways["compare"] = lambda: call("kcmp", victim, victim, 1, 0, 0) >= 0
ways["limit another"] = lambda: call("prlimit", victim, 4, struct.pack("QQ", 1 << 30, 1 << 30), None) == 0
if place["scopes"]:
    ways["signal"] = lambda: os.kill(victim, signal.SIGCONT) is None
    ways["signal a thread"] = lambda: call("tgkill", victim, victim, signal.SIGCONT) == 0
    ways["signal by a pidfd"] = lambda: call("pidfd_signal", call("pidfd_open", victim, 0), signal.SIGCONT, None, 0) == 0


def memory(name):
    buffer = ctypes.create_string_buffer(8)
    address = next((int(line.split("-")[0], 16) for line in open("/proc/self/maps")), 0)
    ours = struct.pack("QQ", ctypes.addressof(buffer), 8)
    return reached(name, victim, ours, 1, struct.pack("QQ", address, 8), 1, 0)


each("memory", ["process_vm_readv", "process_vm_writev"], memory)

# Sockets.

INTERNET = ("127.0.0.1", port)


def connected(family, kind, address, protocol=0):
    made = socket.socket(family, kind, protocol)
    made.settimeout(5)
    made.connect(address)
    return True


ways["TCP"] = lambda: connected(socket.AF_INET, socket.SOCK_STREAM, INTERNET)
ways["TCP, version 6"] = lambda: connected(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", port))
ways["MPTCP"] = lambda: connected(socket.AF_INET, socket.SOCK_STREAM, INTERNET, 262)
ways["UDP"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 53)) > 0
ways["ping"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(bytes([8] + [0] * 7), INTERNET) > 0
ways["raw"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b"x", ("127.0.0.1", 0)) > 0
each("packets of protocol", [3, 0x800], lambda protocol: socket.socket(17, socket.SOCK_RAW, socket.htons(protocol)))
each("netlink", [0, 4, 6, 9, 10, 12, 15, 16], lambda protocol: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol))
each("a socket of family", [3, 4, 5, 9, 11, 21, 24, 26, 29, 30, 31, 36, 38, 39, 40, 41, 42, 43, 44, 45],
     lambda family: socket.socket(family, socket.SOCK_STREAM if family in (40, 43) else socket.SOCK_DGRAM
                                  if family != 38 else socket.SOCK_SEQPACKET))
ways["listen"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).listen() is None
ways["fast open"] = lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).sendto(b"x", 0x20000000, INTERNET) > 0
ways["look up a name"] = lambda: connected(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.53", 53))
each("the socket", place["sockets"], lambda path: connected(socket.AF_UNIX, socket.SOCK_STREAM, path))
run = f"/run/user/{os.getuid()}"
each("the system's socket", ["/run/dbus/system_bus_socket", run + "/bus", run + "/systemd/private", "/run/systemd/private",
                             "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
                             run + "/wayland-0", "/tmp/.X11-unix/X0", "\0/tmp/.X11-unix/X0", run + "/keyring/ssh",
                             "/run/systemd/resolve/io.systemd.Resolve", "/run/nscd/socket",
                             os.environ.get("SSH_AUTH_SOCK", run + "/ssh-agent")],
     lambda path: connected(socket.AF_UNIX, socket.SOCK_STREAM, path))
each("the log's socket", ["/dev/log", "/run/systemd/journal/socket", "/run/systemd/notify"],
     lambda path: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"", path) >= 0)


@way
def receive_a_descriptor():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(place["giver"])
    return os.pread(socket.recv_fds(peer, 1, 1)[1][0], 1, 0)


ways["an abstract socket"] = lambda: connected(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + place["abstract"])
ways["the socket by a link"] = lambda: connected(
    socket.AF_UNIX, socket.SOCK_STREAM, f"/proc/{victim}/root{place['sockets'][0]}")


def from_a_pair(kind, address):
    pair = socket.socketpair(socket.AF_UNIX, kind)
    return pair[0].sendto(b"x", address) > 0


ways["a pair that sends"] = lambda: from_a_pair(socket.SOCK_DGRAM, place["datagrams"])
ways["a pair that sends elsewhere"] = lambda: from_a_pair(socket.SOCK_STREAM, place["sockets"][0])
ways["a pair that sends a message"] = lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendmsg(
    [b"x"], [], 0, place["datagrams"]) > 0
ways["a pair that connects"] = lambda: socket.socketpair()[0].connect(place["sockets"][0]) is None

# Without files.

ways["shared memory"] = lambda: call("shmget", 0x6E6273, 4096, 0o1600) >= 0
ways["messages"] = lambda: call("msgget", 0x6E6273, 0o1600) >= 0
ways["semaphores"] = lambda: call("semget", 0x6E6273, 1, 0o1600) >= 0
ways["a queue"] = lambda: call("mq_open", b"nbs-way-out", os.O_RDWR | os.O_CREAT, 0o600, None) >= 0

# nbs itself.

nbs = place["nbs"]
each("nbs-ts", [f"send {place['other_handle']} x", f"kill {place['other_handle']}", "create --no-helper true",
                "create --require-helper true", f"read {place['other_handle']}", "list --name=zzz",
                f"resize {place['other_handle']} 90x30", f"attach {place['other_handle']}", "machine add x sh", "status --json @other"],
     lambda words: subprocess.run([nbs, "ts", *words.split()]).returncode == 0)

only = place.get("only")
null = os.open("/dev/null", os.O_RDWR)
worked = []
for name, function in ways.items():
    if only and name not in only:
        continue
    if only:
        open(key, "w").write("key")
    child = os.fork()
    if not child:
        for descriptor in range(3):
            os.dup2(null, descriptor)
        signal.alarm(30)
        try:
            way_out = bool(function())
        except BaseException:
            way_out = False
        os._exit(way_out)
    if os.waitpid(child, 0)[1] == 256:
        worked.append(name)
if only:
    missing = [name for name in only if name not in ways]
    assert not missing, missing
json.dump({"tried": len(only or ways), "worked": worked}, open(sys.argv[2], "w"))
