//! The system call filter: rules as data in [`table`], turned into one small program here.
//!
//! The numbers from 0 up are cut into segments of equal answer, and the program finds its segment by halving, so that any call is decided in
//! about eight steps. An unlisted number answers ENOSYS, so that libraries fall back; a known and refused one answers EPERM; a foreign
//! architecture kills. x32 numbers are unlisted numbers.
//! Reference: seccomp(2), Documentation/userspace-api/seccomp_filter.rst.

mod table;

use ringfence_wire::Instruction;
use serde::{Deserialize, Serialize};

/// What the filter depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterSpec {
    /// `ptrace` and its kin among the run's own processes.
    pub debug: bool,
    /// New processes (threads are always allowed).
    pub processes: bool,
    /// Memory without a file name (`memfd_create`), which nothing counts where no cgroup does.
    pub anonymous_files: bool,
    /// System V shared memory, likewise.
    pub shared_memory: bool,
    /// Init and the program have the same user id, so calls that act on other processes by id are kept to the caller itself.
    pub same_user: bool,
}

/// A condition on the low 32 bits of an argument (every argument tested here is an `int`, or has its meaning in those bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    argument: u32,
    mask: u32,
    value: u32,
}

/// What a call answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It goes to the kernel.
    Allow,
    /// It goes to the kernel if every test of one alternative holds; else EPERM.
    AllowIf(Vec<Vec<Test>>),
    /// EPERM if every test of one alternative holds; else it goes to the kernel.
    RefuseIf(Vec<Vec<Test>>),
    /// EPERM.
    Refuse,
    /// ENOSYS.
    Absent,
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const JUMP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Compiles the filter.
pub(crate) fn compile(spec: &FilterSpec) -> Vec<Instruction> {
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE_AT),
        instruction(EQUAL, 1, 0, ARCHITECTURE),
        give(libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD, 0, 0, NUMBER_AT),
    ];
    program.extend(search(&segments(&table::rules(spec))));
    program
}

/// Cuts the numbers into segments `(first, answer)`; the last one runs to the end.
fn segments(rules: &[(libc::c_long, Answer)]) -> Vec<(u32, Answer)> {
    let mut sorted: Vec<(u32, &Answer)> = rules.iter().map(|(number, answer)| (*number as u32, answer)).collect();
    sorted.sort_by_key(|(number, _)| *number);
    let mut cut: Vec<(u32, Answer)> = vec![(0, Answer::Absent)];
    let push = |first: u32, answer: &Answer, cut: &mut Vec<(u32, Answer)>| match cut.last_mut() {
        Some(last) if last.0 == first => last.1 = answer.clone(),
        Some(last) if last.1 == *answer => {}
        Some(_) | None => cut.push((first, answer.clone())),
    };
    for (number, answer) in sorted {
        push(number, answer, &mut cut);
        push(number + 1, &Answer::Absent, &mut cut);
    }
    join_equal(cut)
}

/// Replacing a segment's answer can leave it equal to the one before.
fn join_equal(cut: Vec<(u32, Answer)>) -> Vec<(u32, Answer)> {
    let mut joined: Vec<(u32, Answer)> = Vec::new();
    for segment in cut {
        if joined.last().is_none_or(|last| last.1 != segment.1) {
            joined.push(segment);
        }
    }
    joined
}

/// A halving search over segments. Every path ends in a return, so code can follow code.
fn search(segments: &[(u32, Answer)]) -> Vec<Instruction> {
    let [.., _, _] = segments else {
        return segments.first().map_or_else(Vec::new, |(_, answer)| answer_code(answer));
    };
    let (low, high) = segments.split_at(segments.len() / 2);
    let (low_code, high_code, border) = (search(low), search(high), high[0].0);
    let mut code = match u8::try_from(low_code.len()) {
        Ok(distance) => vec![instruction(AT_LEAST, distance, 0, border)],
        Err(_) => vec![instruction(AT_LEAST, 0, 1, border), instruction(JUMP, 0, 0, low_code.len() as u32)],
    };
    code.extend(low_code);
    code.extend(high_code);
    code
}

fn answer_code(answer: &Answer) -> Vec<Instruction> {
    let eperm = give(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let allow = give(libc::SECCOMP_RET_ALLOW);
    match answer {
        Answer::Allow => vec![allow],
        Answer::Refuse => vec![eperm],
        Answer::Absent => vec![give(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32)],
        Answer::AllowIf(alternatives) => alternatives_code(alternatives, allow, eperm),
        Answer::RefuseIf(alternatives) => alternatives_code(alternatives, eperm, allow),
    }
}

/// `met` if every test of one alternative holds, else `unmet`.
fn alternatives_code(alternatives: &[Vec<Test>], met: Instruction, unmet: Instruction) -> Vec<Instruction> {
    let mut code = Vec::new();
    for tests in alternatives {
        let mut remaining = tests.len() * 3 + 1;
        for test in tests {
            remaining -= 3;
            code.push(instruction(LOAD, 0, 0, ARGUMENTS_AT + 8 * test.argument));
            code.push(instruction(AND, 0, 0, test.mask));
            code.push(instruction(EQUAL, 0, remaining as u8, test.value & test.mask));
        }
        code.push(met);
    }
    code.push(unmet);
    code
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn give(value: u32) -> Instruction {
    instruction(RETURN, 0, 0, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: FilterSpec = FilterSpec { debug: false, processes: true, anonymous_files: true, shared_memory: true, same_user: false };

    /// Runs the program as the kernel would (the subset of BPF that it uses).
    fn answer(program: &[Instruction], architecture: u32, number: u32, arguments: [u32; 3]) -> u32 {
        let (mut at, mut accumulator) = (0, 0u32);
        loop {
            let i = program[at];
            at += 1;
            match i.code {
                LOAD if i.k == NUMBER_AT => accumulator = number,
                LOAD if i.k == ARCHITECTURE_AT => accumulator = architecture,
                LOAD => accumulator = arguments[((i.k - ARGUMENTS_AT) / 8) as usize],
                AND => accumulator &= i.k,
                EQUAL => at += usize::from(if accumulator == i.k { i.jt } else { i.jf }),
                AT_LEAST => at += usize::from(if accumulator >= i.k { i.jt } else { i.jf }),
                JUMP => at += i.k as usize,
                RETURN => return i.k,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn every_rule_answers_as_the_table_says() {
        let (program, rules) = (compile(&SPEC), table::rules(&SPEC));
        let errno = |e: i32| libc::SECCOMP_RET_ERRNO | e as u32;
        for number in (0..600).chain([0x4000_0000, 0x4000_0029, u32::MAX]) {
            let rule = rules.iter().find(|(n, _)| *n as u32 == number).map_or(&Answer::Absent, |(_, a)| a);
            let got = answer(&program, ARCHITECTURE, number, [0, 0, 0]);
            match rule {
                Answer::Allow => assert_eq!(got, libc::SECCOMP_RET_ALLOW, "{number}"),
                Answer::Refuse => assert_eq!(got, errno(libc::EPERM), "{number}"),
                Answer::Absent => assert_eq!(got, errno(libc::ENOSYS), "{number}"),
                Answer::AllowIf(_) | Answer::RefuseIf(_) => {}
            }
        }
        assert_eq!(answer(&program, 0x4000_0003, 1, [0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn arguments_decide() {
        let program = compile(&SPEC);
        let allowed = |n: libc::c_long, a: [u32; 3]| answer(&program, ARCHITECTURE, n as u32, a) == libc::SECCOMP_RET_ALLOW;
        assert!(allowed(libc::SYS_socket, [libc::AF_UNIX as u32, 1, 0]));
        assert!(allowed(libc::SYS_socket, [libc::AF_INET as u32, libc::SOCK_STREAM as u32 | libc::SOCK_CLOEXEC as u32, 6]));
        assert!(!allowed(libc::SYS_socket, [libc::AF_INET as u32, libc::SOCK_STREAM as u32, 262]));
        assert!(!allowed(libc::SYS_socket, [libc::AF_INET as u32, libc::SOCK_RAW as u32, 1]));
        assert!(!allowed(libc::SYS_socket, [libc::AF_VSOCK as u32, 1, 0]));
        assert!(!allowed(libc::SYS_socket, [libc::AF_NETLINK as u32, 3, 12]));
        assert!(!allowed(libc::SYS_clone, [libc::CLONE_NEWUSER as u32 | 17, 0, 0]));
        assert!(allowed(libc::SYS_clone, [17, 0, 0]));
        assert!(!allowed(libc::SYS_ioctl, [0, libc::TIOCSTI as u32, 0]));
        assert!(!allowed(libc::SYS_mknodat, [0, 0, libc::S_IFCHR]));
        assert!(allowed(libc::SYS_mknodat, [0, 0, libc::S_IFIFO | 0o644]));
    }

    #[test]
    fn no_number_has_two_rules() {
        let mut numbers: Vec<_> = table::rules(&SPEC).into_iter().map(|(n, _)| n).collect();
        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        assert_eq!(before, numbers.len());
    }

    #[test]
    fn the_search_is_shallow() {
        let program = compile(&SPEC);
        assert!(program.len() < 1000, "{}", program.len());
    }
}
