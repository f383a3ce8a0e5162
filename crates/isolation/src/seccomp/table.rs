//! Which system calls a program may make, and who needs them. Everything that is not named here answers ENOSYS: among them asynchronous
//! files (`io_setup`), whose contexts are counted for the whole machine.

#[allow(clippy::wildcard_imports, reason = "nearly every name here is a system call number of libc's")]
use libc::*;

use super::{Answer, FilterSpec, Test};

/// CLONE_NEW* of clone(2). (Time namespaces cannot be asked for there: the bit is part of the exit signal.)
const NAMESPACES: u32 = 0x7E02_0000;
/// ioprio_set(2): `who` is a process.
const IOPRIO_WHO_PROCESS: u32 = 1;
/// The type in the second argument of socket(2), without SOCK_CLOEXEC and SOCK_NONBLOCK.
const TYPE: u32 = 0xF;

/// The rules for one kind of run.
pub(super) fn rules(spec: &FilterSpec) -> Vec<(c_long, Answer)> {
    let mut rules: Vec<(c_long, Answer)> = Vec::new();
    let mut add = |numbers: &[c_long], answer: Answer| rules.extend(numbers.iter().map(|n| (*n, answer.clone())));
    for group in [FILES, MEMORY, PROCESSES, SIGNALS, TIME, POLLING, NETWORK, IDENTITY, SCHEDULING, LEGACY] {
        add(group, Answer::Allow);
    }
    add(REFUSED, Answer::Refuse);
    add(&[SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register], Answer::Absent); // libc falls back
    add(&[SYS_clone], clone_rule(spec));
    add(FORKS, if spec.processes { Answer::Allow } else { Answer::Refuse });
    add(&[SYS_socket], Answer::AllowIf(sockets()));
    add(&[SYS_socketpair], Answer::AllowIf(vec![vec![is(0, AF_UNIX as u32)]]));
    add(&[SYS_ioctl], Answer::RefuseIf([TIOCSTI, TIOCLINUX, TIOCSETD].iter().map(|request| vec![is(1, *request as u32)]).collect())); // typing into a terminal, drivers for one
    add(&[SYS_mknodat], Answer::AllowIf(plain_nodes(2)));
    #[cfg(target_arch = "x86_64")]
    add(&[SYS_mknod], Answer::AllowIf(plain_nodes(1)));
    add(&[SYS_personality], personalities(spec));
    add(&[SYS_prctl], Answer::RefuseIf(vec![vec![is(0, PR_SET_MM as u32)]])); // rewriting /proc/self/exe and the like
    // Runtimes that share or seal memory by a descriptor; multi-process databases and image libraries.
    add(&[SYS_memfd_create], if spec.anonymous_files { Answer::Allow } else { Answer::Absent });
    add(&[SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl], if spec.shared_memory { Answer::Allow } else { Answer::Refuse });
    add(INTERPROCESS, if spec.shared_memory { Answer::Allow } else { Answer::Refuse });
    add(&[SYS_setsockopt], Answer::RefuseIf(vec![vec![is(1, SOL_TCP as u32), is(2, TCP_ULP as u32)]])); // other protocols over a TCP socket
    add(&[SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev], if spec.debug { Answer::Allow } else { Answer::Refuse });
    for call in [SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr] {
        add(&[call], kept_to_itself(spec, vec![is(0, 0)]));
    }
    add(&[SYS_setpriority], kept_to_itself(spec, vec![is(0, PRIO_PROCESS), is(1, 0)]));
    add(&[SYS_ioprio_set], kept_to_itself(spec, vec![is(0, IOPRIO_WHO_PROCESS), is(1, 0)]));
    rules
}

/// Where init has the program's own user id, a call that acts on a process by id may only name the caller itself.
fn kept_to_itself(spec: &FilterSpec, itself: Vec<Test>) -> Answer {
    if spec.same_user { Answer::AllowIf(vec![itself]) } else { Answer::Allow }
}

fn is(argument: u32, value: u32) -> Test {
    Test { argument, mask: u32::MAX, value }
}

fn masked(argument: u32, mask: u32, value: u32) -> Test {
    Test { argument, mask, value }
}

/// No new namespaces; and only threads where new processes are not allowed.
fn clone_rule(spec: &FilterSpec) -> Answer {
    let mut tests = vec![masked(0, NAMESPACES, 0)];
    if !spec.processes {
        tests.push(masked(0, CLONE_THREAD as u32, CLONE_THREAD as u32));
    }
    Answer::AllowIf(vec![tests])
}

/// Local sockets, TCP and UDP, and the netlink family that answers "which interfaces are there".
fn sockets() -> Vec<Vec<Test>> {
    let mut allowed = vec![vec![is(0, AF_UNIX as u32)], vec![is(0, AF_NETLINK as u32), is(2, 0)]];
    for family in [AF_INET, AF_INET6] {
        for (kind, protocol) in [(SOCK_STREAM, 0), (SOCK_STREAM, IPPROTO_TCP), (SOCK_DGRAM, 0), (SOCK_DGRAM, IPPROTO_UDP)] {
            allowed.push(vec![is(0, family as u32), masked(1, TYPE, kind as u32), is(2, protocol as u32)]);
        }
    }
    allowed
}

/// Files, pipes and sockets; no devices.
fn plain_nodes(mode: u32) -> Vec<Vec<Test>> {
    [0, S_IFREG, S_IFIFO, S_IFSOCK].into_iter().map(|kind| vec![masked(mode, S_IFMT, kind)]).collect()
}

/// Plain Linux, and asking; a debugger also switches off address randomisation.
fn personalities(spec: &FilterSpec) -> Answer {
    let mut allowed = vec![vec![is(0, 0)], vec![is(0, u32::MAX)]];
    if spec.debug {
        allowed.push(vec![is(0, ADDR_NO_RANDOMIZE as u32)]);
    }
    Answer::AllowIf(allowed)
}

/// Every program: files, folders and their attributes.
#[rustfmt::skip]
const FILES: &[c_long] = &[
    SYS_read, SYS_write, SYS_readv, SYS_writev, SYS_pread64, SYS_pwrite64, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2,
    SYS_openat, SYS_openat2, SYS_close, SYS_close_range, SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs,
    SYS_faccessat, SYS_faccessat2, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_getdents64, SYS_readlinkat, SYS_mkdirat, SYS_unlinkat,
    SYS_renameat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2, SYS_fchown, SYS_fchownat,
    SYS_utimensat, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs, SYS_sync_file_range,
    SYS_flock, SYS_fcntl, SYS_dup, SYS_dup3, SYS_umask, SYS_fadvise64, SYS_readahead, SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice,
    SYS_copy_file_range, SYS_pipe2, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr, SYS_llistxattr, SYS_flistxattr,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, CACHESTAT, SYS_inotify_init1,
    SYS_inotify_add_watch, SYS_inotify_rm_watch,
];

/// Every program: memory of its own; NUMA hints for numeric libraries; protection keys for JavaScript engines.
#[rustfmt::skip]
const MEMORY: &[c_long] = &[
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_msync, SYS_mincore, SYS_mlock, SYS_mlock2, SYS_munlock,
    SYS_mlockall, SYS_munlockall, SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect,
    SYS_remap_file_pages, MAP_SHADOW_STACK, SYS_mseal,
];

/// Every program: starting, waiting, ending, limits and threads.
#[rustfmt::skip]
const PROCESSES: &[c_long] = &[
    SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_getpid, SYS_getppid, SYS_gettid, SYS_setsid,
    SYS_getsid, SYS_setpgid, SYS_getpgid, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_futex, SYS_futex_waitv,
    FUTEX_WAKE_2, FUTEX_WAIT_2, FUTEX_REQUEUE_2, SYS_rseq, SYS_membarrier, SYS_getrlimit, SYS_setrlimit, SYS_getrusage, SYS_sysinfo,
    SYS_uname, SYS_getrandom, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_getcpu, SYS_times, SYS_seccomp, SYS_landlock_create_ruleset,
    SYS_landlock_add_rule, SYS_landlock_restrict_self, // browsers and tools that fence themselves further
];

/// Every program: signals within the sandbox's own process namespace.
#[rustfmt::skip]
const SIGNALS: &[c_long] = &[
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sigaltstack, SYS_signalfd4, SYS_restart_syscall,
];

/// Every program: reading clocks, sleeping, timers.
#[rustfmt::skip]
const TIME: &[c_long] = &[
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_gettimeofday, SYS_nanosleep, SYS_timer_create, SYS_timer_settime,
    SYS_timer_gettime, SYS_timer_getoverrun, SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    SYS_getitimer, SYS_setitimer,
];

/// Servers and runtimes with an event loop.
const POLLING: &[c_long] = &[SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_ppoll, SYS_pselect6, SYS_eventfd2];

/// Local servers and clients; socket(2) itself is decided by argument.
#[rustfmt::skip]
const NETWORK: &[c_long] = &[
    SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_connect, SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_getsockopt,
    SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg,
];

/// Build tools and shells ask who they are, and set what they already are.
#[rustfmt::skip]
const IDENTITY: &[c_long] = &[
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getresuid, SYS_getresgid, SYS_getgroups, SYS_setuid, SYS_setgid, SYS_setreuid,
    SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_setfsuid, SYS_setfsgid, SYS_capget, SYS_capset,
];

/// Thread pools look at processors and priorities; setting them is decided by argument.
#[rustfmt::skip]
const SCHEDULING: &[c_long] = &[
    SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_getscheduler, SYS_sched_getparam, SYS_sched_getattr, SYS_sched_get_priority_max,
    SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_getpriority, SYS_ioprio_get,
];

/// Databases: System V semaphores, in the sandbox's own namespace; memory that only a cgroup counts.
const INTERPROCESS: &[c_long] = &[SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop];

/// Old spellings of the same calls, still made by compiled programs.
#[rustfmt::skip]
#[cfg(target_arch = "x86_64")]
const LEGACY: &[c_long] = &[
    SYS_open, SYS_creat, SYS_stat, SYS_lstat, SYS_access, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_rename, SYS_link, SYS_symlink,
    SYS_readlink, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_getdents, SYS_dup2, SYS_pipe, SYS_poll,
    SYS_select, SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_signalfd, SYS_inotify_init, SYS_pause, SYS_alarm, SYS_time,
    SYS_getpgrp, SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[c_long] = &[];

/// Shells and whatever starts a program the old way; where no processes may be made, clone(2) makes threads only.
#[cfg(target_arch = "x86_64")]
const FORKS: &[c_long] = &[SYS_fork, SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: &[c_long] = &[];

/// Known and refused, for everyone: what administers a machine, reaches into other processes, or has been a way out of other sandboxes.
#[rustfmt::skip]
const REFUSED: &[c_long] = &[
    // the tree of mounts and the root
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick,
    SYS_mount_setattr, STATMOUNT, LISTMOUNT,
    // namespaces
    SYS_unshare, SYS_setns,
    // other processes
    SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise, SYS_process_mrelease, SYS_move_pages, SYS_migrate_pages,
    // files by handle, watches of whole file systems, quotas
    SYS_name_to_handle_at, SYS_open_by_handle_at, SYS_fanotify_init, SYS_fanotify_mark, SYS_quotactl, SYS_quotactl_fd,
    SYS_lookup_dcookie, SYS_nfsservctl,
    // programs for the kernel, counters, faults, secret memory
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_memfd_secret,
    // keyrings
    SYS_add_key, SYS_request_key, SYS_keyctl,
    // kernel-wide queues, which no workspace limit counts
    SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend, SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr, SYS_msgget, SYS_msgsnd,
    SYS_msgrcv, SYS_msgctl,
    // the machine
    SYS_reboot, SYS_kexec_load, KEXEC_FILE_LOAD, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_swapon, SYS_swapoff, SYS_acct,
    SYS_syslog, SYS_sethostname, SYS_setdomainname, SYS_vhangup, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex,
    SYS_set_mempolicy_home_node, LSM_GET_SELF_ATTR, LSM_SET_SELF_ATTR, LSM_LIST_MODULES,
    #[cfg(target_arch = "x86_64")] SYS_iopl,
    #[cfg(target_arch = "x86_64")] SYS_ioperm,
    #[cfg(target_arch = "x86_64")] SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")] SYS_uselib,
    #[cfg(target_arch = "x86_64")] SYS_ustat,
    #[cfg(target_arch = "x86_64")] SYS_sysfs,
    #[cfg(target_arch = "x86_64")] SYS__sysctl,
];

// Numbers that the libc crate does not name yet; the same on every architecture since 5.x.
const CACHESTAT: c_long = 451;
const MAP_SHADOW_STACK: c_long = 453;
const FUTEX_WAKE_2: c_long = 454;
const FUTEX_WAIT_2: c_long = 455;
const FUTEX_REQUEUE_2: c_long = 456;
const STATMOUNT: c_long = 457;
const LISTMOUNT: c_long = 458;
const LSM_GET_SELF_ATTR: c_long = 459;
const LSM_SET_SELF_ATTR: c_long = 460;
const LSM_LIST_MODULES: c_long = 461;
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: c_long = 294;
