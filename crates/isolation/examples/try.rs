use ringfence_isolation::*;
fn main() {
    become_init_if_asked();
    let caps = {
        let s = ringfence_policy::shipped().iter().find(|s| s.name == "data-analysis").unwrap();
        ringfence_policy::Profile::parse("x", s.text).unwrap().bound
    };
    let cgroups =
        if std::env::var_os("NOCG").is_some() { Cgroups::None { reason: "".into(), hint: "".into() } } else { Cgroups::discover() };
    eprintln!("{cgroups:?}");
    let lease = lease_identity().unwrap();
    let home = std::env::var_os("RH").unwrap();
    let image = HostImage::prepare(std::path::Path::new(&home)).unwrap();
    let plan = compile(&SandboxSpec {
        capabilities: &caps,
        cgroups: &cgroups,
        identity: lease.identity,
        image: &image,
        inputs: None,
        input_folders: vec![],
        project: None,
        has_writable_union: true,
    });
    let run = format!("try-{}", std::process::id());
    let t = std::time::Instant::now();
    let mut sb = Sandbox::create(
        Creation {
            plan: &plan,
            run: &run,
            limits: &caps.limits,
            memory_grade: if cgroups.holds_memory() { ringfence_policy::Grade::Kernel } else { ringfence_policy::Grade::Watched },
            cgroups: &cgroups,
            lease,
            cancel: None,
        },
        &mut |_, _| Ok(()),
    )
    .unwrap();
    eprintln!("up {:?}", t.elapsed());
    let argv = std::env::args_os().skip(1).map(OsText::from).collect();
    let mut out = std::io::stdout();
    let mut err = std::io::stderr();
    let id = sb
        .start(
            &Command { argv, environment: vec![] },
            Streams { stdin: None, stdout: Capture::passing_on(&mut out), stderr: Capture::passing_on(&mut err) },
        )
        .unwrap();
    let o = sb.wait(id, true).unwrap();
    let r = sb.finish().unwrap();
    eprintln!("{:?} {:?} {:?} {:?}", o.end, r.usage, r.limits_reached, t.elapsed());
}
