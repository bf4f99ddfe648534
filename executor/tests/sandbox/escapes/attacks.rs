//! The attacks, as shell scripts that say so when they have worked.

/// What a script writes once it has got out.
pub(crate) const ESCAPED: &str = "ESCAPED";

/// One way out.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Starts in the workspace, with the variables of [`super::scene::Scene::variables`].
    pub(crate) script: &'static str,
    pub(crate) needs_terminal: bool,
}

const fn attack(name: &'static str, script: &'static str) -> Attack {
    Attack {
        name,
        script,
        needs_terminal: false,
    }
}

pub(crate) const ATTACKS: &[Attack] = &[
    attack("write outside", "echo x > $OUT/new && echo ESCAPED"),
    attack("climb", "echo x > ../outside/new && echo ESCAPED"),
    attack("symbolic link", "ln -s $OUT l && echo x > l/new && echo ESCAPED"),
    attack("hard link", "ln $OUT/victim h && echo x > h && echo ESCAPED"),
    attack("take away", "mv -f $OUT/victim . && echo ESCAPED"),
    attack("own root in /proc", "echo x > /proc/self/root$OUT/new && echo ESCAPED"),
    attack(
        "own folder in /proc",
        "echo x > /proc/self/cwd/../outside/new && echo ESCAPED",
    ),
    attack(
        "parent's root in /proc",
        "echo x > /proc/$PPID/root$OUT/new && echo ESCAPED",
    ),
    attack(
        "root of another process",
        "echo x > /proc/$VICTIM/root$OUT/new && echo ESCAPED",
    ),
    attack(
        "environment of another process",
        "grep -q VICTIM_SECRET /proc/$VICTIM/environ && echo ESCAPED",
    ),
    attack(
        "memory of another process",
        r#"perl -e 'open(F, "+<", "/proc/$ENV{VICTIM}/mem") and print "ESCAPED"'"#,
    ),
    attack("signal", "kill -9 $VICTIM && echo ESCAPED"),
    attack(
        "trace another process",
        r#"perl -e 'print "ESCAPED" if syscall($ENV{PTRACE}, 16, $ENV{VICTIM} + 0, 0, 0) == 0'"#,
    ),
    attack(
        "trace a sibling",
        r#"sleep 9 & A=$! perl -e 'print "ESCAPED" if syscall($ENV{PTRACE}, 16, $ENV{A} + 0, 0, 0) == 0'; kill -9 $!"#,
    ),
    attack(
        "memory of a sibling",
        r#"sleep 9 & A=$! perl -e 'print "ESCAPED" if syscall($ENV{READV}, $ENV{A} + 0, 0, 0, 0, 0, 0) == 0'; kill -9 $!"#,
    ),
    attack("mount", "mount -t tmpfs none /mnt && umount /mnt && echo ESCAPED"),
    attack(
        "bind",
        "mkdir b && mount --bind $OUT b && echo x > b/new && umount b && echo ESCAPED",
    ),
    attack(
        "remount",
        "mount -o remount,bind,rw / && echo x > $OUT/new && echo ESCAPED",
    ),
    attack("user namespace", "unshare -Ur true && echo ESCAPED"),
    attack(
        "user namespace by the call that hides its flags",
        r#"perl -e '$a = pack("Q8", 0x10000000, 0, 0, 0, 17, 0, 0, 0); $p = syscall($ENV{CLONE3}, $a, 64); exit if !$p; print "ESCAPED" if $p > 0'"#,
    ),
    attack("mount namespace", "unshare -m true && echo ESCAPED"),
    attack(
        "mount in a user namespace",
        "unshare -Urm mount -t tmpfs none /mnt && echo ESCAPED",
    ),
    attack(
        "namespace of another process",
        "nsenter --mount=/proc/$VICTIM/ns/mnt true && echo ESCAPED",
    ),
    attack("root folder", r#"perl -e 'chroot("/") and print "ESCAPED"'"#),
    attack(
        "device node",
        "mknod zero c 1 5 && head -c 1 zero > /dev/null && echo ESCAPED",
    ),
    attack(
        "kernel parameter",
        "V=$(cat /proc/sys/vm/swappiness); echo $V > /proc/sys/vm/swappiness && echo ESCAPED",
    ),
    attack(
        "core dump handler",
        "cp /proc/sys/kernel/core_pattern c && cat c > /proc/sys/kernel/core_pattern && echo ESCAPED",
    ),
    attack(
        "keyring",
        r#"perl -e 'print "ESCAPED" if syscall($ENV{KEYCTL}, 0, -3, 1) > 0'"#,
    ),
    attack("setuid program", "[ $($OUT/id -u) = 1 ] && echo ESCAPED"),
    attack(
        "TCP",
        r#"perl -MIO::Socket::INET -e 'print "ESCAPED" if IO::Socket::INET->new("127.0.0.1:$ENV{PORT}")'"#,
    ),
    attack(
        "packet socket",
        r#"perl -MSocket -e 'socket(S, 17, SOCK_RAW, 0) and print "ESCAPED"'"#,
    ),
    attack(
        "netlink socket",
        r#"perl -MSocket -e 'socket(S, 16, SOCK_RAW, 0) and print "ESCAPED"'"#,
    ),
    attack(
        "abstract socket",
        r#"perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) and connect(S, pack("S a*", 1, "\0$ENV{ABSTRACT}")) and print "ESCAPED"'"#,
    ),
    attack(
        "socket in the file system",
        r#"perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) and connect(S, pack_sockaddr_un("$ENV{OUT}/sock")) and print "ESCAPED"'"#,
    ),
    attack(
        "datagram",
        r#"perl -MSocket -e 'socketpair(S, T, AF_UNIX, SOCK_DGRAM, 0) and send(S, "x", 0, pack_sockaddr_un("$ENV{OUT}/dgram")) and print "ESCAPED"'"#,
    ),
    attack("hook", "echo x > .git/hooks/post-commit && echo ESCAPED"),
    attack(
        "moved repository",
        "mv -f .git g && mkdir -p .git/hooks && echo ESCAPED",
    ),
    attack("replaced repository", "rm -rf .git && ln -s / .git && echo ESCAPED"),
    attack(
        "repository moved over",
        "mkdir g && mv -f -T g .git && echo ESCAPED; rm -rf .git/* && mv -f -T g .git && echo ESCAPED",
    ),
    attack(
        "protected folder that is missing",
        "mkdir .agents && echo x > .agents/x && echo ESCAPED",
    ),
    attack(
        "protected link that is missing",
        "ln -s $OUT .codex && [ -L .codex ] && echo ESCAPED",
    ),
    attack(
        "folder above a protected one",
        "mv -f keep k && mkdir -p keep/deep && echo ESCAPED",
    ),
    attack(
        "mode of a protected folder",
        "chmod 700 .git/hooks && echo x > .git/hooks/x && echo ESCAPED",
    ),
    attack("denied file", "cat $OUT/secret && echo ESCAPED"),
    attack("denied folder", "ls denied/* && echo ESCAPED"),
    attack("denied pattern", "cat x.env && echo ESCAPED"),
    attack("denied behind a link", "ln -s x.env y; cat y && echo ESCAPED"),
    attack("denied under another name", "ln x.env y && cat y && echo ESCAPED"),
    attack("denied moved", "mv -f x.env y && cat y && echo ESCAPED"),
    attack("denied in /proc", "cat /proc/self/cwd/x.env && echo ESCAPED"),
    attack("mask taken off", "umount x.env 2> /dev/null; cat x.env && echo ESCAPED"),
    attack("mode of a mask", "chmod 777 denied && ls denied/* && echo ESCAPED"),
    Attack {
        needs_terminal: true,
        ..attack(
            "input of the terminal",
            r#"perl -e 'ioctl(STDIN, 0x5412, my $x = "x") and print "ESCAPED"'"#,
        )
    },
];
