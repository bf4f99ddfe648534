//! System calls that no sandboxed program may make.
//!
//! The filters deny by name and allow the rest: programs must go on working. What they deny are ways around the mounts,
//! namespaces and missing capabilities of the sandbox, calls into other processes, and kernel interfaces that programs do
//! not need but attackers do. They hold on every calling convention of the machine: calls of a foreign architecture kill
//! the program, and those of the x32 convention fail.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, sock_filter,
};

use super::Network;

/// What a sandbox needs of its filters beside the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Namespaces and mounts do the rest.
    Namespaces,
    /// The program shares the machine's namespaces, and file permissions and attributes are not otherwise guarded.
    SharedNamespaces,
    /// As before, but the program may write everywhere, so that attributes need no guard.
    Network,
}

/// The filters of a sandbox; all must be loaded.
pub(super) fn filters(network: Network, extent: Extent) -> io::Result<[BpfProgram; 2]> {
    let errno = |code: i32| SeccompAction::Errno(code.unsigned_abs());
    // Its flags are in memory, out of a filter's sight; programs fall back to `clone`.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok([
        compile(unknown, errno(libc::ENOSYS))?,
        compile(denied(network, extent)?, errno(libc::EPERM))?,
    ])
}

/// Loads filters into this process and all that it starts.
pub(super) fn load(filters: &[BpfProgram]) -> io::Result<()> {
    for filter in filters {
        seccompiler::apply_filter(filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// A filter in the form that bubblewrap reads.
pub(super) fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for instruction in program {
        bytes.extend_from_slice(&instruction.code.to_ne_bytes());
        bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
        bytes.extend_from_slice(&instruction.k.to_ne_bytes());
    }
    bytes
}

type Rules = BTreeMap<i64, Vec<Rule>>;

fn compile(rules: Rules, action: SeccompAction) -> io::Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).map_err(io::Error::other)?;
    let program: BpfProgram = filter.try_into().map_err(io::Error::other)?;
    Ok(without_x32().into_iter().chain(program).collect())
}

/// Numbers of the x32 convention carry this bit and no other architecture's do.
const X32_BIT: u32 = 0x4000_0000;

/// `if nr >= X32_BIT { return ENOSYS }`, which no list of numbers can express.
fn without_x32() -> [sock_filter; 3] {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    [
        instruction(LOAD_NUMBER, 0, 0, 0),
        instruction(JUMP_IF_AT_LEAST, 0, 1, X32_BIT),
        instruction(
            RETURN,
            0,
            0,
            u32::from(SeccompAction::Errno(libc::ENOSYS.unsigned_abs())),
        ),
    ]
}

/// Calls that the C library's headers do not name yet; new calls have the same number on every architecture.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;

/// Calls that are denied whatever their arguments.
const DENIED: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Mounts and namespaces.
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
    OPEN_TREE_ATTR,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    // Kernel interfaces.
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
    // The machine.
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

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
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
const DENIED_HERE: &[i64] = &[];

/// Calls that reach other programs through memory or queues that namespaces would hide, and calls that change a file
/// without writing to it.
const DENIED_WHEN_SHARED: &[i64] = &[
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
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    libc::SYS_utimensat,
    libc::SYS_prlimit64,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setaffinity,
    libc::SYS_ioprio_set,
    FILE_SETATTR,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE_WHEN_SHARED: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE_WHEN_SHARED: &[i64] = &[];

/// `CLONE_NEWTIME`; it shares a bit with the signal number in `clone`'s flags, where it has no meaning.
const NEW_TIME: u64 = 0x80;
const NEW_NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];
/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`.
const SET_ATTRIBUTES: [u64; 2] = [0x4008_6602, 0x401c_5820];
/// Types of sockets that the C library's headers do not name.
const SOCK_DCCP: i32 = 6;
const SOCK_PACKET: i32 = 10;
/// Type of a socket without its flags.
const SOCKET_TYPE: u64 = 0xf;

fn denied(network: Network, extent: Extent) -> io::Result<Rules> {
    let mut rules = Rules::new();
    deny(&mut rules, DENIED);
    deny(&mut rules, DENIED_HERE);
    let namespaces = NEW_NAMESPACES.map(|flag| u64::from(flag.unsigned_abs()));
    for flag in namespaces {
        deny_if(&mut rules, libc::SYS_clone, vec![bits(0, flag)?])?;
        deny_if(&mut rules, libc::SYS_unshare, vec![bits(0, flag)?])?;
    }
    deny_if(&mut rules, libc::SYS_unshare, vec![bits(0, NEW_TIME)?])?;
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        // The kernel looks at the lower half only.
        deny_if(
            &mut rules,
            libc::SYS_ioctl,
            vec![condition(1, Len::Dword, Op::Eq, request)?],
        )?;
    }
    if extent == Extent::SharedNamespaces {
        deny(&mut rules, DENIED_WHEN_SHARED);
        deny(&mut rules, DENIED_HERE_WHEN_SHARED);
        for request in SET_ATTRIBUTES {
            deny_if(
                &mut rules,
                libc::SYS_ioctl,
                vec![condition(1, Len::Dword, Op::Eq, request)?],
            )?;
        }
    }
    match network {
        Network::Restricted => deny_network(&mut rules)?,
        Network::Managed => confine_network(&mut rules)?,
        Network::Enabled => {}
    }
    Ok(rules)
}

/// Leaves pairs of connected sockets to programs that talk to their own children, and nothing that has a name: neither
/// another family, which a network namespace need not contain, nor another process's socket in the file system, to which
/// mounts are no barrier.
fn deny_network(rules: &mut Rules) -> io::Result<()> {
    deny(
        rules,
        &[
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_listen,
            libc::SYS_accept,
            libc::SYS_accept4,
        ],
    );
    let unix = u64::from(libc::AF_UNIX.unsigned_abs());
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        deny_if(rules, call, vec![condition(0, Len::Dword, Op::Ne, unix)?])?;
        // Datagrams can be addressed to any socket, and raw means datagram in this family.
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let kind = u64::from(kind.unsigned_abs());
            deny_if(
                rules,
                call,
                vec![condition(1, Len::Dword, Op::MaskedEq(SOCKET_TYPE), kind)?],
            )?;
        }
    }
    deny_if(rules, libc::SYS_sendto, vec![condition(4, Len::Qword, Op::Ne, 0)?])
}

/// Leaves TCP and UDP of the Internet's families, for which a network namespace is a barrier, and pairs of
/// connected sockets.
fn confine_network(rules: &mut Rules) -> io::Result<()> {
    let family = |family: i32| condition(0, Len::Dword, Op::Ne, u64::from(family.unsigned_abs()));
    let kind = |kind: i32| {
        let kind = u64::from(kind.unsigned_abs());
        condition(1, Len::Dword, Op::MaskedEq(SOCKET_TYPE), kind)
    };
    let other_families = vec![family(libc::AF_INET)?, family(libc::AF_INET6)?];
    deny_if(rules, libc::SYS_socket, other_families)?;
    for raw in [
        libc::SOCK_RAW,
        libc::SOCK_RDM,
        libc::SOCK_SEQPACKET,
        SOCK_DCCP,
        SOCK_PACKET,
    ] {
        deny_if(rules, libc::SYS_socket, vec![kind(raw)?])?;
    }
    // Others have code of their own in the kernel, and do nothing that a program behind a proxy needs.
    let protocol = |protocol: i32| condition(2, Len::Dword, Op::Ne, u64::from(protocol.unsigned_abs()));
    let other_protocols = vec![protocol(0)?, protocol(libc::IPPROTO_TCP)?, protocol(libc::IPPROTO_UDP)?];
    deny_if(rules, libc::SYS_socket, other_protocols)?;
    // Connected pairs cannot be turned to a socket with a name; datagrams can, and raw means datagram in this family.
    deny_if(rules, libc::SYS_socketpair, vec![family(libc::AF_UNIX)?])?;
    for loose in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
        deny_if(rules, libc::SYS_socketpair, vec![kind(loose)?])?;
    }
    Ok(())
}

fn deny(rules: &mut Rules, calls: &[i64]) {
    // An empty list of rules matches every call.
    rules.extend(calls.iter().map(|&call| (call, Vec::new())));
}

fn deny_if(rules: &mut Rules, call: i64, conditions: Vec<Condition>) -> io::Result<()> {
    let rule = Rule::new(conditions).map_err(io::Error::other)?;
    rules.entry(call).or_default().push(rule);
    Ok(())
}

fn bits(argument: u8, flag: u64) -> io::Result<Condition> {
    condition(argument, Len::Qword, Op::MaskedEq(flag), flag)
}

fn condition(argument: u8, len: Len, op: Op, value: u64) -> io::Result<Condition> {
    Condition::new(argument, len, op, value).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
