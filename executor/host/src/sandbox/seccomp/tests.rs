use super::*;

/// Runs a filter as the kernel does, for the instructions that filters have.
fn judge(program: &BpfProgram, architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend_from_slice(&number.to_ne_bytes());
    data.extend_from_slice(&architecture.to_ne_bytes());
    data.extend_from_slice(&[0; 8]);
    for argument in arguments {
        data.extend_from_slice(&argument.to_ne_bytes());
    }
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        let instruction = &program[at];
        at += 1;
        let jump = |holds: bool| usize::from(if holds { instruction.jt } else { instruction.jf });
        match instruction.code {
            0x20 => {
                let from = instruction.k as usize;
                accumulator = u32::from_ne_bytes(data[from..from + 4].try_into().expect("a word"));
            }
            0x54 => accumulator &= instruction.k,
            0x15 => at += jump(accumulator == instruction.k),
            0x25 => at += jump(accumulator > instruction.k),
            0x35 => at += jump(accumulator >= instruction.k),
            0x05 => at += instruction.k as usize,
            0x06 => return instruction.k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

const ALLOW: u32 = 0x7fff_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const KILL: u32 = 0x8000_0000;
#[cfg(target_arch = "x86_64")]
const HERE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const HERE: u32 = 0xc000_00b7;

/// The strictest verdict of all filters of a sandbox.
fn verdict(network: Network, extent: Extent, call: i64, arguments: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let filters = filters(network, extent).expect("filters");
    let verdicts = filters
        .iter()
        .map(|filter| judge(filter, HERE, u32::try_from(call).expect("number"), all));
    verdicts.min().expect("a filter")
}

fn offline(call: i64, arguments: &[u64]) -> u32 {
    verdict(Network::Restricted, Extent::Namespaces, call, arguments)
}

fn online(call: i64, arguments: &[u64]) -> u32 {
    verdict(Network::Enabled, Extent::Namespaces, call, arguments)
}

#[test]
fn denies_what_leaves_the_sandbox_and_allows_the_rest() {
    for call in [
        libc::SYS_ptrace,
        libc::SYS_mount,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_keyctl,
    ] {
        assert_eq!(online(call, &[]), EPERM, "{call}");
    }
    for call in [
        libc::SYS_read,
        libc::SYS_openat,
        libc::SYS_execve,
        libc::SYS_futex,
        libc::SYS_fchmod,
    ] {
        assert_eq!(offline(call, &[]), ALLOW, "{call}");
    }
    assert_eq!(online(libc::SYS_clone3, &[]), ENOSYS);
}

#[test]
fn new_namespaces_are_denied_threads_and_children_are_not() {
    let flag = |flags: i32| u64::from(flags.unsigned_abs());
    let thread = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        for namespace in NEW_NAMESPACES {
            assert_eq!(online(call, &[flag(namespace)]), EPERM);
            assert_eq!(online(call, &[flag(namespace | libc::CLONE_FS)]), EPERM);
        }
    }
    assert_eq!(online(libc::SYS_clone, &[flag(thread)]), ALLOW);
    assert_eq!(online(libc::SYS_clone, &[flag(libc::SIGCHLD)]), ALLOW);
    assert_eq!(online(libc::SYS_unshare, &[flag(libc::CLONE_FILES)]), ALLOW);
    assert_eq!(online(libc::SYS_unshare, &[NEW_TIME]), EPERM);
}

#[test]
fn terminals_take_no_foreign_input() {
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        assert_eq!(online(libc::SYS_ioctl, &[0, request]), EPERM);
        assert_eq!(online(libc::SYS_ioctl, &[0, request | 1 << 32]), EPERM);
    }
    assert_eq!(online(libc::SYS_ioctl, &[0, libc::TIOCGWINSZ]), ALLOW);
}

#[test]
fn a_restricted_network_leaves_socket_pairs_only() {
    let socket = |family: i32, kind: i32| [u64::from(family.unsigned_abs()), u64::from(kind.unsigned_abs())];
    for family in [
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
        libc::AF_VSOCK,
        libc::AF_PACKET,
    ] {
        let arguments = socket(family, libc::SOCK_STREAM);
        assert_eq!(offline(libc::SYS_socket, &arguments), EPERM, "{family}");
        assert_eq!(online(libc::SYS_socket, &arguments), ALLOW, "{family}");
    }
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC] {
        assert_eq!(offline(libc::SYS_socketpair, &socket(libc::AF_UNIX, kind)), EPERM);
    }
    for kind in [
        libc::SOCK_STREAM,
        libc::SOCK_SEQPACKET,
        libc::SOCK_STREAM | libc::SOCK_NONBLOCK,
    ] {
        assert_eq!(offline(libc::SYS_socketpair, &socket(libc::AF_UNIX, kind)), ALLOW);
    }
    for call in [libc::SYS_connect, libc::SYS_bind, libc::SYS_accept4] {
        assert_eq!(offline(call, &[]), EPERM);
        assert_eq!(online(call, &[]), ALLOW);
    }
    assert_eq!(offline(libc::SYS_sendto, &[3, 0, 0, 0, 0]), ALLOW);
    assert_eq!(offline(libc::SYS_sendto, &[3, 0, 0, 0, 1 << 40]), EPERM);
}

#[test]
fn no_other_calling_convention_gets_around() {
    let filters = filters(Network::Restricted, Extent::Namespaces).expect("filters");
    for filter in &filters {
        let ptrace = u32::try_from(libc::SYS_ptrace).expect("number");
        assert_eq!(judge(filter, HERE, ptrace | X32_BIT, [0; 6]), ENOSYS);
        const I386: u32 = 0x4000_0003;
        assert_eq!(judge(filter, I386, 26, [0; 6]), KILL);
    }
}

#[test]
fn attributes_of_files_are_guarded_where_mounts_do_not() {
    let shared = |call| verdict(Network::Enabled, Extent::SharedNamespaces, call, &[]);
    for call in [
        libc::SYS_fchmodat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_shmget,
    ] {
        assert_eq!(shared(call), EPERM, "{call}");
        assert_eq!(verdict(Network::Enabled, Extent::Network, call, &[]), ALLOW, "{call}");
    }
}

#[test]
fn bytes_are_the_kernel_s_instructions() {
    let [filter, _] = filters(Network::Enabled, Extent::Namespaces).expect("filters");
    let bytes = bytes(&filter);
    assert_eq!(bytes.len(), filter.len() * 8);
    assert_eq!(bytes[..8], [0x20, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[11], 1, "the second instruction jumps by one");
}

fn managed(call: i64, arguments: &[u64]) -> u32 {
    verdict(Network::Managed, Extent::Namespaces, call, arguments)
}

#[test]
fn a_managed_network_has_the_families_that_its_namespace_confines() {
    let number = |value: i32| u64::from(value.unsigned_abs());
    let flags = number(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    for family in [libc::AF_INET, libc::AF_INET6].map(number) {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(number) {
            assert_eq!(managed(libc::SYS_socket, &[family, kind | flags, 0]), ALLOW);
        }
        for kind in [libc::SOCK_RAW, libc::SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET].map(number) {
            assert_eq!(managed(libc::SYS_socket, &[family, kind | flags, 0]), EPERM);
        }
        for (protocol, expected) in [
            (libc::IPPROTO_TCP, ALLOW),
            (libc::IPPROTO_UDP, ALLOW),
            (libc::IPPROTO_ICMP, EPERM),
            (libc::IPPROTO_ICMPV6, EPERM),
            (libc::IPPROTO_SCTP, EPERM),
            (libc::IPPROTO_UDPLITE, EPERM),
            (libc::IPPROTO_MPTCP, EPERM),
        ] {
            for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(number) {
                let arguments = [family, kind | flags, number(protocol)];
                assert_eq!(managed(libc::SYS_socket, &arguments), expected, "{protocol}");
            }
        }
        // The kernel looks at the lower half only.
        assert_eq!(
            managed(libc::SYS_socket, &[family | 1 << 32, number(libc::SOCK_STREAM)]),
            ALLOW
        );
    }
    for family in 0..64 {
        if ![libc::AF_INET, libc::AF_INET6].contains(&family) {
            assert_eq!(
                managed(libc::SYS_socket, &[number(family), number(libc::SOCK_STREAM)]),
                EPERM,
                "{family}"
            );
            assert_eq!(
                managed(libc::SYS_socket, &[number(family), number(libc::SOCK_DGRAM) | flags]),
                EPERM
            );
        }
    }
    let unix = number(libc::AF_UNIX);
    let pair = |family, kind| managed(libc::SYS_socketpair, &[family, kind, 0, 0]);
    assert_eq!(pair(unix, number(libc::SOCK_STREAM) | flags), ALLOW);
    assert_eq!(pair(unix, number(libc::SOCK_SEQPACKET)), ALLOW);
    assert_eq!(pair(unix, number(libc::SOCK_DGRAM) | flags), EPERM);
    assert_eq!(pair(unix, number(libc::SOCK_RAW)), EPERM);
    assert_eq!(pair(number(libc::AF_TIPC), number(libc::SOCK_STREAM)), EPERM);
    for call in [
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept4,
        libc::SYS_sendto,
    ] {
        assert_eq!(managed(call, &[0, 0, 0, 0, 1, 16]), ALLOW, "{call}");
    }
    for call in [
        libc::SYS_setns,
        libc::SYS_ptrace,
        libc::SYS_pidfd_getfd,
        libc::SYS_io_uring_setup,
    ] {
        assert_eq!(managed(call, &[]), EPERM, "{call}");
    }
    assert_eq!(managed(libc::SYS_unshare, &[number(libc::CLONE_NEWNET)]), EPERM);
}

#[cfg(target_arch = "x86_64")]
const OUT_HERE: &[i64] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS__sysctl,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
];
#[cfg(not(target_arch = "x86_64"))]
const OUT_HERE: &[i64] = &[];

/// Each is a way out of its own, which no other test would miss. The numbers are those of calls without a name yet.
#[test]
fn every_way_out_is_denied() {
    let calls = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_process_madvise,
        libc::SYS_pidfd_getfd,
        libc::SYS_kcmp,
        libc::SYS_move_pages,
        libc::SYS_migrate_pages,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_fsconfig,
        libc::SYS_fsmount,
        libc::SYS_fspick,
        libc::SYS_mount_setattr,
        467,
        libc::SYS_open_by_handle_at,
        libc::SYS_name_to_handle_at,
        libc::SYS_quotactl,
        libc::SYS_quotactl_fd,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_fanotify_init,
        libc::SYS_syslog,
        libc::SYS_acct,
        libc::SYS_kexec_load,
        libc::SYS_kexec_file_load,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_swapoff,
        libc::SYS_settimeofday,
        libc::SYS_clock_settime,
        libc::SYS_sethostname,
        libc::SYS_setdomainname,
        libc::SYS_vhangup,
    ];
    for call in calls.into_iter().chain(OUT_HERE.iter().copied()) {
        for network in [Network::Restricted, Network::Managed, Network::Enabled] {
            for extent in [Extent::Namespaces, Extent::SharedNamespaces, Extent::Network] {
                assert_eq!(verdict(network, extent, call, &[]), EPERM, "{call}");
            }
        }
    }
    for call in [
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
    ] {
        assert_eq!(offline(call, &[]), EPERM, "{call}");
    }
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        let kind = u64::from(kind.unsigned_abs());
        assert_eq!(offline(libc::SYS_socket, &[unix, kind]), EPERM, "{kind}");
    }
}

#[cfg(target_arch = "x86_64")]
const TO_OTHERS_HERE: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const TO_OTHERS_HERE: &[i64] = &[];

#[test]
fn every_way_to_others_and_to_attributes_is_denied_where_namespaces_are_shared() {
    let calls = [
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_shmctl,
        libc::SYS_semget,
        libc::SYS_semctl,
        libc::SYS_semop,
        libc::SYS_msgget,
        libc::SYS_msgsnd,
        libc::SYS_msgrcv,
        libc::SYS_msgctl,
        libc::SYS_mq_open,
        libc::SYS_mq_unlink,
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchmodat2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        463,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
        466,
        libc::SYS_utimensat,
        libc::SYS_prlimit64,
        libc::SYS_setpriority,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setattr,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setaffinity,
        libc::SYS_ioprio_set,
        469,
    ];
    for call in calls.into_iter().chain(TO_OTHERS_HERE.iter().copied()) {
        assert_eq!(
            verdict(Network::Enabled, Extent::SharedNamespaces, call, &[]),
            EPERM,
            "{call}"
        );
        assert_eq!(online(call, &[]), ALLOW, "{call}");
    }
    // The attributes that make a file immutable, or keep it from backups.
    for request in [0x4008_6602, 0x401c_5820] {
        let arguments = [0, request | 1 << 32];
        assert_eq!(
            verdict(Network::Enabled, Extent::SharedNamespaces, libc::SYS_ioctl, &arguments),
            EPERM
        );
        assert_eq!(online(libc::SYS_ioctl, &arguments), ALLOW);
    }
}
