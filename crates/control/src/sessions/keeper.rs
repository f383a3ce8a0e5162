//! The thread that keeps a session: it attends to the sandbox, does what it is asked to, and writes down what happens.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ringfence_evidence::{ClosedBy, Event, RunEnd};
use ringfence_isolation::{Capture, Command, CommandOutcome, End, Occurrence, OsText, Sandbox, Stdin, Streams, Trees, Window};
use ringfence_policy::LimitKey;
use ringfence_store::JournalWriter;
use tokio::sync::oneshot;

use super::command::{CommandEnd, CommandRequest, SessionCommand};
use super::error::SessionError;
use super::feed::{From, Stream, Subscription};
use super::session::{Beginning, Orders, Seat, Session};
use super::wake::Wake;
use crate::inside::{Keeper, Kept};
use crate::request::Secret;
use crate::state::Words;
use crate::{ending, record};

/// Commands of one session that run at once, and in all: each leaves two lines on record.
const MOST_AT_ONCE: usize = 256;
const MOST_IN_ALL: u32 = 1_000_000;
/// Commands that have ended and can still be asked for.
const REMEMBERED: usize = 256;
/// The signal that a command's own time ends with.
const KILL: i32 = 9;
/// How long a command that was begun may take before whoever asked for it hears so: of a short one all is told at once, to one who was woken once.
const MOMENT: Duration = Duration::from_millis(5);

/// Where an answer goes.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, SessionError>>;

/// A command that was begun, and somebody who listens to it from its first word.
pub(crate) type Begun = (Arc<SessionCommand>, Subscription);

/// A command that was begun a moment ago, and who is to hear so.
struct Fresh {
    begun: Begun,
    answer: Answer<Begun>,
    until: Instant,
}

impl Fresh {
    /// A command that will be fed is told of at once.
    fn of(begun: Begun, answer: Answer<Begun>) -> Self {
        let moment = if begun.0.request.has_stdin { Duration::ZERO } else { MOMENT };
        Self { begun, answer, until: Instant::now() + moment }
    }

    fn is_due(&self) -> bool {
        self.begun.0.has_ended() || self.until <= Instant::now()
    }

    /// Where nobody waits for the answer any more the command still runs: it was asked for.
    fn tell(self) {
        self.answer.send(Ok(self.begun)).map(drop).unwrap_or_default();
    }
}

/// What a keeper is asked to do.
#[derive(Debug)]
pub(crate) enum Order {
    Start { request: Box<CommandRequest>, answer: Answer<Begun> },
    Feed { command: u32, bytes: Vec<u8>, answer: oneshot::Sender<Result<bool, SessionError>> },
    CompleteInput { command: u32 },
    Signal { command: u32, signal: i32 },
    Resize { command: u32, window: Window },
    Socket { port: u16, answer: Answer<OwnedFd> },
    Wall { left: Duration, is_given: bool },
    Snapshot { answer: Answer<Trees> },
    Close { by: ClosedBy },
}

/// Takes a seat in a session that is about to stand, and keeps it.
pub(crate) struct SessionKeeper {
    pub(crate) seat: Mutex<Option<Seat>>,
    /// The session, once it has stood.
    pub(crate) session: Mutex<Option<Arc<Session>>>,
}

impl Keeper for SessionKeeper {
    fn keep(&self, kept: Kept<'_, '_>) -> io::Result<RunEnd> {
        let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Seat { orders, standing, wake, wall, about }) = seat else { return Err(io::Error::other("the session was kept before")) };
        let Kept { run, sandbox, journal, environment, secrets, allowed, user, said } = kept;
        let Orders { to, from } = orders;
        let session = Session::standing(Beginning {
            run,
            about,
            journal: journal.clone(),
            files: sandbox.files()?,
            wake: wake.clone(),
            orders: to,
            allowed,
            user,
            said,
            environment: environment.clone(),
        });
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        let mut keeping = Keeping {
            sandbox,
            journal,
            environment,
            secrets,
            session: session.clone(),
            orders: from,
            wake,
            running: BTreeMap::new(),
            fresh: Vec::new(),
            asked: Vec::new(),
            closed_by: None,
            is_time_given: false,
        };
        if let Some(left) = wall {
            session.set_left(left).map_err(io::Error::other)?;
        }
        if standing.send(session.clone()).is_err() {
            return Ok(RunEnd::Closed { by: ClosedBy::Request }); // whoever asked for it went away meanwhile
        }
        let end = keeping.until_over();
        session.set_over();
        drop(keeping); // whoever still asks for something hears that it is over
        session.wait_until_saved();
        end
    }

    fn words(&self) -> Words {
        let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        session.as_ref().map(|session| session.words()).unwrap_or_default()
    }
}

struct Keeping<'s, 'a> {
    sandbox: &'s mut Sandbox<'a>,
    journal: JournalWriter,
    environment: Vec<(String, OsText)>,
    secrets: Vec<Secret>,
    session: Arc<Session>,
    orders: Receiver<Order>,
    wake: Wake,
    /// By the sandbox's number of each.
    running: BTreeMap<u32, Arc<SessionCommand>>,
    fresh: Vec<Fresh>,
    /// Who waits for a socket, in order.
    asked: Vec<Answer<OwnedFd>>,
    closed_by: Option<ClosedBy>,
    /// Whether the wall is time that somebody gave, and not the limit of the run.
    is_time_given: bool,
}

impl Keeping<'_, '_> {
    fn until_over(&mut self) -> io::Result<RunEnd> {
        loop {
            let deadlines = self.running.values().filter_map(|command| command.deadline);
            if let Some(soonest) = deadlines.chain(self.fresh.iter().map(|fresh| fresh.until)).min() {
                self.sandbox.look_by(soonest);
            }
            let occurred = self.sandbox.attend(self.wake.as_fd())?;
            self.wake.take();
            if self.sandbox.ended_by().is_some() {
                self.session.set_over(); // before anybody hears how the commands ended
            }
            occurred.into_iter().try_for_each(|occurrence| self.note(occurrence))?;
            self.tell_fresh();
            if let Some(end) = self.sandbox.ended_by() {
                return Ok(self.over(&end.clone()));
            }
            self.obey_all()?;
            self.tell_fresh();
            self.end_overdue()?;
            self.session.set_usage(self.sandbox.used());
        }
    }

    fn tell_fresh(&mut self) {
        self.fresh.extract_if(.., |fresh| fresh.is_due()).for_each(Fresh::tell);
    }

    /// How the session ended, in the words of the record.
    fn over(&self, end: &End) -> RunEnd {
        match (self.closed_by, end) {
            (Some(by), _) => RunEnd::Closed { by },
            (None, End::Limit { limit: LimitKey::Wall }) if self.is_time_given => RunEnd::Closed { by: self.session.closed_at_timeout() },
            (None, end) => ending::of(end),
        }
    }

    fn note(&mut self, occurrence: Occurrence) -> io::Result<()> {
        match occurrence {
            Occurrence::Ended { id, outcome } => self.ended(id, &outcome),
            Occurrence::Socket { socket } => {
                let none =
                    || SessionError::Failed { act: "make a socket inside", source: io::Error::other("the sandbox can have no more") };
                if !self.asked.is_empty() {
                    // Whoever asked may have gone.
                    self.asked.remove(0).send(socket.ok_or_else(none)).map(drop).unwrap_or_default();
                }
                Ok(())
            }
        }
    }

    fn ended(&mut self, id: u32, outcome: &CommandOutcome) -> io::Result<()> {
        let Some(command) = self.running.remove(&id) else { return Ok(()) };
        record::command_ended(&self.journal, command.number, outcome).map_err(io::Error::other)?;
        let is_killed = outcome.end == End::Signaled { signal: KILL };
        let end = CommandEnd {
            end: ending::of(&outcome.end),
            status: ending::exit_status(&outcome.end),
            is_out_of_time: is_killed && command.deadline.is_some_and(|deadline| deadline <= Instant::now()),
            stdout: record::stream(&outcome.stdout),
            stderr: record::stream(&outcome.stderr),
        };
        command.set_ended(end);
        self.session.forget_beyond(REMEMBERED + self.running.len());
        Ok(())
    }

    fn obey_all(&mut self) -> io::Result<()> {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.obey(order)?,
                Err(TryRecvError::Empty) => return Ok(()),
                // Nobody can ask for anything any more.
                Err(TryRecvError::Disconnected) => return self.obey(Order::Close { by: ClosedBy::Shutdown }),
            }
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Start { request, answer } => match self.start(*request) {
                Ok(begun) => self.fresh.push(Fresh::of(begun, answer)),
                Err(error) => drop(answer.send(Err(error))),
            },
            Order::Feed { command, bytes, answer } => {
                let taken = self.number(command).is_none_or(|id| self.sandbox.feed(id, &bytes));
                drop(answer.send(Ok(taken)));
            }
            Order::CompleteInput { command } => {
                if let Some(id) = self.number(command) {
                    self.sandbox.complete_input(id);
                }
            }
            Order::Signal { command, signal } => self.signal(command, signal)?,
            Order::Resize { command, window } => {
                if let Some(id) = self.number(command) {
                    self.sandbox.resize(id, window)?;
                }
            }
            Order::Socket { port, answer } => {
                self.journal.append(Event::PortOpened { port }).map_err(io::Error::other)?;
                self.sandbox.ask_for_socket()?;
                self.asked.push(answer);
            }
            Order::Snapshot { answer } => {
                let trees = self.sandbox.trees().map_err(|errno| SessionError::Failed { act: "save the session", source: errno.into() });
                drop(answer.send(trees));
            }
            Order::Wall { left, is_given } => self.set_wall(left, is_given)?,
            Order::Close { by } => {
                self.closed_by.get_or_insert(by);
                self.sandbox.end(End::Interrupted { signal: KILL });
                self.wake.call();
            }
        }
        Ok(())
    }

    fn set_wall(&mut self, left: Duration, is_given: bool) -> io::Result<()> {
        self.is_time_given = is_given;
        Ok(self.sandbox.set_wall(left)?)
    }

    /// The sandbox's number of a command that runs.
    fn number(&self, command: u32) -> Option<u32> {
        self.running.iter().find(|(_, running)| running.number == command).map(|(id, _)| *id)
    }

    fn start(&mut self, request: CommandRequest) -> Result<Begun, SessionError> {
        if self.running.len() >= MOST_AT_ONCE {
            return Err(SessionError::Commands { most: MOST_AT_ONCE, what: "running at once" });
        }
        let number = self.session.next_number(MOST_IN_ALL)?;
        let command = self.command(&request);
        let secrets = [self.secrets.as_slice(), &request.known_secrets].concat();
        let recorded = record::command_starting(&self.journal, number, &command, self.sandbox.folder(), request.has_stdin, &secrets);
        recorded.map_err(|error| SessionError::Run(error.into()))?;
        let has_stdin = request.has_stdin;
        let begun = Arc::new(SessionCommand::new(number, request, self.wake.clone()));
        let listening = begun.listen(From::Number(0));
        let streams = Streams {
            stdin: if has_stdin { Stdin::Fed } else { Stdin::Empty },
            stdout: Capture::handing_over(Stream::stdout(&begun)),
            stderr: Capture::handing_over(Stream::stderr(&begun)),
        };
        let id = self
            .sandbox
            .begin(&command, streams)
            .map_err(|errno| SessionError::Failed { act: "start the command", source: errno.into() })?;
        self.running.insert(id, begun.clone());
        self.session.remember(begun.clone());
        Ok((begun, listening))
    }

    /// What the command itself names goes before what the session names.
    fn command(&self, request: &CommandRequest) -> Command {
        let own = request.environment.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone()));
        let mut environment: Vec<(String, OsText)> = own.collect();
        let others = self.environment.iter().filter(|(name, _)| request.environment.iter().all(|(own, _)| own.as_str() != name));
        environment.extend(others.cloned());
        Command { folder: request.folder.clone(), terminal: request.terminal, ..Command::new(request.argv.clone(), environment) }
    }

    fn signal(&mut self, command: u32, signal: i32) -> io::Result<()> {
        let Some(id) = self.number(command) else { return Ok(()) };
        let event = Event::CommandSignaled { command, signal: ending::signal_name(signal) };
        self.journal.append(event).map_err(io::Error::other)?;
        Ok(self.sandbox.signal(id, signal)?)
    }

    /// Commands whose own time is up are killed.
    fn end_overdue(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let overdue: Vec<u32> = self.running.values().filter(|c| c.deadline.is_some_and(|at| at <= now)).map(|c| c.number).collect();
        overdue.into_iter().try_for_each(|command| match self.session.is_killed_anew(command) {
            true => self.signal(command, KILL),
            false => Ok(()),
        })
    }
}
