//! The loop of the server.
//!
//! Each turn waits for all events together: a message, room for a response, a call that prints or has ended,
//! or the time of a progress report. There is no other wait, so no call holds up another, nor a cancellation.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt,
    time::{Duration, Instant},
};

use crate::{
    help::texts::Text,
    json::{Fields, Object, Value},
    mcp::{
        answer::{self, AnswerForm},
        call::{Ended, ToolCall},
        input_line::{Frames, InputLine, LONGEST},
        message::{
            self, BATCHING, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, METHOD_NOT_FOUND,
            MISSING_CAPABILITY, Message, RpcError, RpcRequest, STATELESS, UNSUPPORTED_VERSION,
            WITH_HANDSHAKE,
        },
        tasks::{self, EXTENSION, Task, TaskState},
        tools::{Invocation, ToolName, Tools},
    },
    outcome::{Failure, Result, Trying},
    session::{OpenForm, StateDir, Target},
    sys::{
        child,
        deadline::Deadline,
        poll::{PIPE_ROOM, PollSet},
        random,
        signals::{SIGKILL, SIGTERM},
    },
};

/// How often a call reports that it still runs, if the client asks for that: some clients give up on a call
/// without a report for a minute, or less.
const PROGRESS: Duration = Duration::from_secs(5);

/// A call that takes longer than this becomes a task, if the client supports those.
const LONG: Duration = Duration::from_secs(3);

/// Each call is a process, with three descriptors of ours.
const CALLS_AT_ONCE: usize = 64;

/// They never carry a notification, so one is as good as many.
const SUBSCRIPTIONS: usize = 64;

/// If this much output is unread by the client, we do not read its input.
const UNREAD: usize = 1 << 20;

/// How long a client may cache the list of tools, which only another version of this file changes: an hour.
const FRESH_MS: i64 = 3_600_000;

/// How long the calls under way may take when the client has gone: most of them, some ms. Less than
/// clients wait before they kill.
const FAREWELL: Duration = Duration::from_secs(5);
/// The same for calls that wait, as for a command that is run.
const WAITING: Duration = Duration::from_secs(1);

/// Serves the client until its end of input, and then to the end of the calls that are brief.
/// With `owner` the sessions end when we do; with `structured` all answers are structure.
pub(crate) fn serve(tools: &Tools, owner: bool, structured: bool) -> Result<()> {
    let mut server = Server {
        tools,
        owner,
        form: if structured { AnswerForm::Structure } else { AnswerForm::Text },
        handshake: None,
        farewell: [Deadline::NEVER; 2],
        calls: Vec::new(),
        tasks: Vec::new(),
        asking: Vec::new(),
        has_urls: false,
        subscriptions: Vec::new(),
        batches: Vec::new(),
        batches_ever: 0,
        unsent: VecDeque::new(),
    };
    let mut input = Some(Frames::new(LONGEST));
    while input.is_some() || !server.calls.is_empty() || !server.unsent.is_empty() {
        server.turn(&mut input)?;
    }
    Ok(())
}

struct Server<'a> {
    tools: &'a Tools<'a>,
    owner: bool,
    /// The form of answers for a client that does not declare one.
    form: AnswerForm,
    /// The version that `initialize` agreed on: from then on requests may be without one.
    handshake: Option<&'static str>,
    /// When those calls are ended that wait for something, and when all are, for the client has
    /// gone.
    farewell: [Deadline; 2],
    calls: Vec<Pending>,
    tasks: Vec<Task>,
    /// Calls whose programs want a secret, which the client's user is asked to type on a page.
    asking: Vec<Asking>,
    /// Can the client show an address to its user?
    has_urls: bool,
    /// Requests for notifications of changes, of which there are none.
    subscriptions: Vec<(Id, Reply)>,
    batches: Vec<Batch>,
    batches_ever: u64,
    /// The output that the client has not read yet, line by line.
    unsent: VecDeque<u8>,
}

/// The way a request is answered: on a line of its own, or within the batch of that number.
type Reply = Option<u64>;

/// Invariant: `awaited` requests of it are still to be answered.
struct Batch {
    number: u64,
    awaited: usize,
    answers: Vec<String>,
}

/// A call under way.
struct Pending {
    request: Asked,
    tool: ToolName,
    picture: Option<&'static str>,
    call: ToolCall,
    progress: Option<Progress>,
    /// The words of a `run`, from which those that resume it are made, and the output before it was resumed.
    words: Vec<OsString>,
    printed: String,
    /// When it becomes a task, and as which one it is answered for, if it is one.
    long: Deadline,
    task: Option<String>,
    /// The client does not want the result any more.
    cancelled: bool,
}

/// A call that has ended at a secret prompt, and its result then.
struct Asking {
    pending: Pending,
    ended: Ended,
    form: OpenForm,
}

/// The parts of a request that are needed to answer it.
#[derive(Clone)]
struct Asked {
    id: Id,
    reply: Reply,
    /// It is of the version without a handshake.
    stateless: bool,
    form: AnswerForm,
    /// The client has tasks; and forms by which its user answers a question.
    has_tasks: bool,
    has_forms: bool,
}

struct Progress {
    token: Id,
    since: Instant,
    next: Deadline,
}

#[derive(Clone, Copy)]
enum Event {
    Input,
    Output,
    /// For the call with that index.
    CallInput(usize),
    CallOutput(usize),
    CallError(usize),
    /// Someone may have used a form.
    Form,
}

impl Pending {
    /// Does its own request wait for an answer?
    fn is_awaited(&self) -> bool {
        !self.cancelled && self.task.is_none()
    }
}

impl Server<'_> {
    fn turn(&mut self, input: &mut Option<Frames>) -> Result<()> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut poll_set = PollSet::new();
        let reads_on = self.unsent.len() < UNREAD;
        if input.is_some() && reads_on {
            poll_set.readable(&stdin, Event::Input);
        }
        if !self.unsent.is_empty() {
            poll_set.writable(&stdout, Event::Output);
        }
        let mut deadline = self.farewell[0].min(self.farewell[1]);
        for (index, pending) in self.calls.iter().enumerate() {
            let call = &pending.call;
            if let Some(stdin) = &call.stdin {
                poll_set.writable(stdin, Event::CallInput(index));
            }
            if let Some(stdout) = &call.stdout {
                poll_set.readable(stdout, Event::CallOutput(index));
            }
            if let Some(stderr) = &call.stderr {
                poll_set.readable(stderr, Event::CallError(index));
            }
            if let Some(progress) = &pending.progress {
                deadline = deadline.min(progress.next);
            }
            deadline = deadline.min(pending.long);
        }
        for Asking { pending, form, .. } in &self.asking {
            poll_set.readable(form, Event::Form);
            let report = pending.progress.as_ref().map_or(Deadline::NEVER, |progress| progress.next);
            deadline = deadline.min(form.deadline).min(report);
        }
        for event in poll_set.wait(deadline).trying("wait for a message")? {
            match event {
                Event::Input => self.read(input)?,
                Event::Output => self.write()?,
                Event::CallInput(index) => self.calls[index].call.write(),
                Event::CallOutput(index) => self.calls[index].call.read_stdout(),
                Event::CallError(index) => self.calls[index].call.read_stderr(),
                Event::Form => {}
            }
        }
        self.send_progress();
        self.make_tasks();
        for all in [false, true] {
            let due = &mut self.farewell[usize::from(all)];
            if due.has_passed() {
                *due = Deadline::NEVER;
                self.give_up(|pending| all || pending.tool.waits());
            }
        }
        self.answer_calls();
        self.leave_forms();
        Ok(())
    }

    fn read(&mut self, input: &mut Option<Frames>) -> Result<()> {
        let Some(frames) = input else { return Ok(()) };
        let mut buffer = vec![0; 64 * 1024];
        let complete = match child::read_stdin(&mut buffer) {
            Ok(0) => {
                let last = frames.finish();
                *input = None;
                last.into_iter().collect()
            }
            Ok(count) => frames.feed(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error).trying("read standard input"),
        };
        for frame in complete {
            match frame {
                InputLine::Message(bytes) => self.take(message::read(&bytes)),
                InputLine::TooLong => {
                    let why = format!("invalid request: it is longer than {} MB", LONGEST >> 20);
                    self.send(&RpcError::new(None, INVALID_REQUEST, why).answer());
                }
            }
        }
        if input.is_none() {
            self.bid_farewell();
        }
        Ok(())
    }

    /// The client has gone, or sends no more. Waiting calls end soon, but the commands they wait for go on.
    /// The other calls run to their ends, unless they take too long.
    fn bid_farewell(&mut self) {
        self.farewell = [WAITING, FAREWELL].map(Deadline::after);
        self.asking.clear();
        for (id, reply) in std::mem::take(&mut self.subscriptions) {
            let meta = Object::new().json("io.modelcontextprotocol/subscriptionId", id.json());
            let over = complete(Object::new(), meta);
            self.reply(reply, Some(message::response(&id, over)));
        }
    }

    /// Ends calls without an answer.
    fn give_up(&mut self, which: impl Fn(&Pending) -> bool) {
        for pending in self.calls.iter_mut().filter(|pending| which(pending)) {
            pending.call.signal(SIGKILL);
            pending.cancelled = true;
        }
    }

    fn write(&mut self) -> Result<()> {
        let (first, _) = self.unsent.as_slices();
        let count = match child::write_stdout(&first[..first.len().min(PIPE_ROOM)]) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Failure::reader_gone()),
            Err(error) => return Err(error).trying("write to standard output"),
        };
        // `VecDeque::drain` would add 700 bytes to the file.
        for _ in 0..count {
            self.unsent.pop_front();
        }
        if self.unsent.is_empty() {
            // The memory of one large response is not kept for ever.
            self.unsent.shrink_to(PIPE_ROOM);
        }
        Ok(())
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Batch(messages) if self.handshake == Some(BATCHING) => self.take_batch(messages),
            Message::Batch(_) => {
                let why = format!("invalid request: only version {BATCHING} has batches");
                self.send(&RpcError::new(None, INVALID_REQUEST, why).answer());
            }
            other => self.take_one(other, None),
        }
    }

    fn take_batch(&mut self, messages: Vec<Message>) {
        self.batches_ever += 1;
        let number = self.batches_ever;
        let is_answered = |message: &&Message| matches!(message, Message::Request(_) | Message::Invalid(_));
        let awaited = messages.iter().filter(is_answered).count();
        self.batches.push(Batch { number, awaited, answers: Vec::new() });
        for message in messages {
            self.take_one(message, Some(number));
        }
        self.batches.retain(|batch| batch.awaited > 0);
    }

    fn take_one(&mut self, message: Message, reply: Reply) {
        match message {
            Message::Request(request) => {
                if let Err(refusal) = self.take_request(request, reply) {
                    self.reply(reply, Some(refusal.answer()));
                }
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                if let Some(id) = params.get("requestId").and_then(Id::of) {
                    self.cancel(&id);
                }
            }
            Message::Response(response) => self.take_response(&response),
            // There is nothing to do about the others, and no answer to them.
            Message::Notification { .. } => {}
            Message::Invalid(refusal) => self.reply(reply, Some(refusal.answer())),
            Message::Batch(_) => unreachable!("what is in a batch is read one by one"),
        }
    }

    fn cancel(&mut self, id: &Id) {
        let is_it = |call: &&mut Pending| call.request.id == *id && call.is_awaited();
        if let Some(pending) = self.calls.iter_mut().find(is_it) {
            pending.cancelled = true;
            pending.progress = None;
            pending.call.signal(SIGTERM);
        }
        // The form stays: someone may be typing.
        self.asking.retain(|asking| asking.pending.request.id != *id);
        if let Some(at) = self.subscriptions.iter().position(|(subscription, _)| subscription == id) {
            let (_, reply) = self.subscriptions.remove(at);
            self.reply(reply, None);
        }
    }

    /// Answers a request, or begins to.
    fn take_request(&mut self, request: RpcRequest, reply: Reply) -> std::result::Result<(), RpcError> {
        let id = &request.id;
        let in_use = self.calls.iter().any(|call| call.request.id == *id && call.is_awaited())
            || self.asking.iter().any(|asking| asking.pending.request.id == *id)
            || self.subscriptions.iter().any(|(subscription, _)| subscription == id);
        if in_use {
            let why = "invalid request: another request with this id is open";
            return Err(RpcError::new(Some(id), INVALID_REQUEST, why));
        }
        let stateless = is_stateless(&request)?;
        let form = if reads_structure(&request, stateless) { AnswerForm::Structure } else { self.form };
        let (has_tasks, has_forms) = if stateless { tasks_and_forms(&request) } else { (false, false) };
        let asked = Asked { id: id.clone(), reply, stateless, form, has_tasks, has_forms };
        let begins = matches!(&*request.method, "initialize" | "ping");
        if !stateless && !begins && self.handshake.is_none() {
            let why = format!(
                "invalid params: no {VERSION} in _meta, as in version {STATELESS}, and no initialize \
                 before, as in older versions"
            );
            return Err(RpcError::new(Some(id), INVALID_PARAMS, why));
        }
        match (&*request.method, stateless) {
            ("tools/call", _) => self.call(asked, &request.params)?,
            ("tools/list", _) => {
                if request.params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
                    let why = "invalid params: there is no further page, and so no cursor";
                    return Err(RpcError::new(Some(id), INVALID_PARAMS, why));
                }
                let tools = Object::new().objects("tools", self.tools.list());
                self.succeed(&asked, if stateless { kept(tools) } else { tools });
            }
            ("server/discover", true) => {
                let versions = [STATELESS.into()];
                let discovered = described(Object::new().list("supportedVersions", &versions), true);
                self.succeed(&asked, kept(discovered));
            }
            ("subscriptions/listen", true) => {
                if self.subscriptions.len() == SUBSCRIPTIONS {
                    let why = format!("{SUBSCRIPTIONS} subscriptions are open; cancel one of them");
                    return Err(RpcError::new(Some(id), INTERNAL_ERROR, why));
                }
                let meta = Object::new().json("io.modelcontextprotocol/subscriptionId", id.json());
                let params = Object::new()
                    .object_or_null("_meta", Some(meta))
                    // Nothing that a client may subscribe to ever changes here.
                    .object_or_null("notifications", Some(Object::new()));
                self.send(&message::notification("notifications/subscriptions/acknowledged", params));
                self.subscriptions.push((asked.id, reply));
            }
            (method @ ("tasks/get" | "tasks/update" | "tasks/cancel"), true) => {
                if !has_tasks {
                    let needed = Object::new().object_or_null(EXTENSION, Some(Object::new()));
                    let needed = Object::new().object_or_null("extensions", Some(needed));
                    let mut refusal =
                        RpcError::new(Some(id), MISSING_CAPABILITY, "Missing required client capability");
                    let data = Object::new().object_or_null("requiredCapabilities", Some(needed));
                    refusal.data = Some(data.value());
                    return Err(refusal);
                }
                let wanted = request.params.get("taskId").and_then(Value::as_str).unwrap_or_default();
                let Some(at) = self.tasks.iter().position(|task| task.id == wanted && task.is_kept()) else {
                    return Err(RpcError::new(Some(id), INVALID_PARAMS, "there is no such task"));
                };
                let result = match method {
                    "tasks/get" => self.tasks[at].object(),
                    "tasks/cancel" => {
                        self.cancel_task(at);
                        Object::new()
                    }
                    _ => {
                        if let Some(Value::Object(responses)) = request.params.get("inputResponses") {
                            self.answer_task(at, &asked, responses);
                        }
                        Object::new()
                    }
                };
                self.succeed(&asked, result);
            }
            ("initialize", false) => {
                let wanted = request.params.get("protocolVersion").and_then(Value::as_str);
                let wanted = WITH_HANDSHAKE.into_iter().find(|version| wanted == Some(version));
                let version = wanted.unwrap_or(WITH_HANDSHAKE[0]);
                self.handshake = Some(version);
                self.form = form;
                self.has_urls =
                    version == WITH_HANDSHAKE[0] && has_mode(request.params.get("capabilities"), "url");
                let greeting = Object::new().text("protocolVersion", version);
                self.succeed(
                    &asked,
                    described(greeting, false).object_or_null("serverInfo", Some(ourselves())),
                );
            }
            ("ping", false) => self.succeed(&asked, Object::new()),
            (method, _) => {
                let why = format!("there is no method '{}'", method.chars().take(100).collect::<String>());
                return Err(RpcError::new(Some(id), METHOD_NOT_FOUND, why));
            }
        }
        Ok(())
    }

    fn call(&mut self, asked: Asked, params: &Fields) -> std::result::Result<(), RpcError> {
        let refuse = |code, why: String| RpcError::new(Some(&asked.id), code, why);
        let none = Fields::new();
        let arguments = match params.get("arguments") {
            Some(Value::Object(arguments)) => arguments,
            None | Some(Value::Null) => &none,
            Some(_) => {
                return Err(refuse(
                    INVALID_PARAMS,
                    "invalid params: arguments is not an \
                object"
                        .into(),
                ));
            }
        };
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(refuse(INVALID_PARAMS, "invalid params: name is not a string".into()));
        };
        let Some(invocation) = self.tools.invocation(name, arguments) else {
            let name = name.chars().take(100).collect::<String>();
            return Err(refuse(INVALID_PARAMS, format!("unknown tool: {name}")));
        };
        let mut invocation = match invocation {
            Ok(invocation) => invocation,
            Err(why) => {
                self.succeed(&asked, answer::failed(&why));
                return Ok(());
            }
        };
        if self.calls.len() == CALLS_AT_ONCE {
            let why = format!("{CALLS_AT_ONCE} calls are running; wait for one of them, or cancel it");
            self.succeed(&asked, answer::failed(&why));
            return Ok(());
        }
        if self.owner && invocation.tool == ToolName::Create {
            invocation.words.insert(1, format!("--owner={}", std::process::id()).into());
        }
        let (tool, picture, words) = (invocation.tool, invocation.picture, invocation.words.clone());
        let call = match ToolCall::start(invocation) {
            Ok(call) => call,
            Err(error) => {
                self.succeed(&asked, answer::failed(&format!("cannot start the call: {error}")));
                return Ok(());
            }
        };
        let token = params.get("_meta").and_then(|meta| Id::of(meta.get("progressToken")?));
        let progress =
            token.map(|token| Progress { token, since: Instant::now(), next: Deadline::after(PROGRESS) });
        let long = if asked.has_tasks && tool.waits() { Deadline::after(LONG) } else { Deadline::NEVER };
        let (task, cancelled, printed) = (None, false, String::new());
        self.calls.push(Pending {
            request: asked,
            tool,
            picture,
            call,
            progress,
            words,
            printed,
            long,
            task,
            cancelled,
        });
        Ok(())
    }

    /// Answers for calls that take long by a task each.
    fn make_tasks(&mut self) {
        self.tasks.retain(Task::is_kept);
        for index in 0..self.calls.len() {
            if self.calls[index].long.has_passed() {
                let pending = &mut self.calls[index];
                (pending.long, pending.progress) = (Deadline::NEVER, None);
                let (request, words) = (pending.request.clone(), pending.words.clone());
                self.calls[index].task = self.begin_task(&request, words, TaskState::Working);
            }
        }
    }

    /// Answers a request by a new task, if there are random bytes for its id.
    fn begin_task(&mut self, request: &Asked, words: Vec<OsString>, state: TaskState) -> Option<String> {
        let id = random::hex::<16>().ok()?;
        let mut task = Task::new(id.clone(), words);
        if let TaskState::Asks { .. } = state {
            task.become_state(state);
        }
        let created = with_meta(task.object().text("resultType", "task"), Object::new());
        self.tasks.push(task);
        self.reply(request.reply, Some(message::response(&request.id, created)));
        Some(id)
    }

    fn cancel_task(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        if matches!(task.state, TaskState::Completed(_)) {
            return;
        }
        task.become_state(TaskState::Cancelled);
        let call = self.calls.iter_mut().find(|call| call.task.as_ref() == Some(&task.id));
        if let Some(pending) = call {
            pending.cancelled = true;
            pending.call.signal(SIGTERM);
        }
    }

    /// Types the answer of the client's user; or leaves the question to the model.
    fn answer_task(&mut self, at: usize, asked: &Asked, responses: &Fields) {
        let task = &mut self.tasks[at];
        let Some(answer) = task.answer(responses) else { return };
        let TaskState::Asks { result, .. } = std::mem::replace(&mut task.state, TaskState::Working) else {
            return;
        };
        match answer {
            None => task.become_state(TaskState::Completed(result)),
            Some(text) => {
                task.become_state(TaskState::Working);
                let (types, _) = task.answering();
                let id = task.id.clone();
                self.go_on(asked, ToolName::Send, types, text.into_bytes(), id);
            }
        }
    }

    /// Starts another call of a task.
    fn go_on(&mut self, asked: &Asked, tool: ToolName, words: Vec<OsString>, input: Vec<u8>, id: String) {
        let invocation = Invocation { tool, words: words.clone(), input, picture: None };
        match ToolCall::start(invocation) {
            Ok(call) => self.calls.push(Pending {
                request: asked.clone(),
                tool,
                picture: None,
                call,
                progress: None,
                words,
                printed: String::new(),
                long: Deadline::NEVER,
                task: Some(id),
                cancelled: false,
            }),
            Err(error) => {
                let failed = answer::failed(&format!("cannot start the call: {error}")).value();
                if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
                    task.become_state(TaskState::Completed(failed));
                }
            }
        }
    }

    /// A call of a task has ended: the command asks, is resumed, or this is the task's result.
    fn end_call_of_task(&mut self, id: &str, pending: &Pending, mut ended: Ended) {
        let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) else { return };
        if pending.tool == ToolName::Send && ended.code == 0 {
            let (_, goes_on) = task.answering();
            let id = task.id.clone();
            return self.go_on(&pending.request, ToolName::Run, goes_on, Vec::new(), id);
        }
        if pending.tool == ToolName::Run {
            answer::put_before(&task.printed, &mut ended);
        }
        let result = answer::result(pending.tool, pending.request.form, pending.picture, &ended).value();
        let asked_for = answer::asked_for(&ended).filter(|_| pending.tool == ToolName::Run);
        match asked_for.filter(|_| pending.request.has_forms) {
            Some((printed, question)) => {
                task.printed = printed;
                task.become_state(TaskState::Asks { question, result });
            }
            None => task.become_state(TaskState::Completed(result)),
        }
    }

    fn send_progress(&mut self) {
        let mut told = Vec::new();
        let asking = self.asking.iter_mut().map(|asking| &mut asking.pending);
        for pending in self.calls.iter_mut().chain(asking) {
            let Some(progress) = pending.progress.as_mut().filter(|progress| progress.next.has_passed())
            else {
                continue;
            };
            let seconds = progress.since.elapsed().as_secs();
            progress.next = Deadline::after(PROGRESS);
            let params = Object::new()
                .json("progressToken", progress.token.json())
                .number("progress", seconds)
                .text("message", &format!("{seconds} s"));
            told.push(message::notification("notifications/progress", params));
        }
        for notification in told {
            self.send(&notification);
        }
    }

    /// Answers the calls that are over.
    fn answer_calls(&mut self) {
        while let Some(index) = self.calls.iter().position(|pending| pending.call.is_over()) {
            let mut pending = self.calls.swap_remove(index);
            let Pending { ref request, tool, picture, cancelled, .. } = pending;
            match (pending.call.finish(), pending.task.take()) {
                (_, Some(_)) if cancelled => {}
                (_, None) if cancelled => self.reply(request.reply, None),
                (Ok(ended), Some(id)) => self.end_call_of_task(&id, &pending, ended),
                (Ok(ended), None) if self.asks_by_task(&pending, &ended) => {}
                (Ok(mut ended), None) => {
                    answer::put_before(&pending.printed, &mut ended);
                    let Some(form) = self.form_for(&pending, &mut ended) else {
                        let result = answer::result(tool, request.form, picture, &ended);
                        self.succeed(request, result);
                        continue;
                    };
                    let (program, line) = form.form.asked.split_once('\n').unwrap_or_default();
                    let message = format!("{program} asks in session {}: {line}", form.form.session.handle());
                    let params = Object::new()
                        .text("mode", "url")
                        .text("elicitationId", &form.form.id)
                        .text("url", &form.address)
                        .text("message", &message);
                    self.send(&message::request(&form.form.id, "elicitation/create", params));
                    self.asking.push(Asking { pending, ended, form });
                }
                (Err(error), Some(id)) => {
                    let failed = answer::failed(&format!("cannot read how the call ended: {error}")).value();
                    if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
                        task.become_state(TaskState::Completed(failed));
                    }
                }
                (Err(error), None) => {
                    let why = format!("cannot read how the call ended: {error}");
                    let refusal = RpcError::new(Some(&request.id), INTERNAL_ERROR, why);
                    self.reply(request.reply, Some(refusal.answer()));
                }
            }
        }
    }

    /// A form for the secret that a call ended at, if the client shows its user addresses.
    fn form_for(&self, pending: &Pending, ended: &mut Ended) -> Option<OpenForm> {
        if !self.has_urls || pending.tool != ToolName::Run || !answer::wants_secret(ended) {
            return None;
        }
        let target = Target::parse(pending.words.last()?.as_bytes())?;
        let state_dir = StateDir::open().ok()?;
        if !state_dir.has_page() {
            answer::add(
                ended,
                "; if the user starts 'nbs-page' and you call `run` with resume=true, the user is asked for it",
            );
        }
        state_dir.open_form(&target).ok()?
    }

    /// Takes a client's answer to a request of ours. If its user agrees, the form is still to be used.
    fn take_response(&mut self, response: &Fields) {
        let id = response.get("id").and_then(Value::as_str);
        let action = response.get("result").and_then(|result| result.get("action")?.as_str());
        let at = self.asking.iter().position(|asking| Some(&*asking.form.form.id) == id);
        if let Some(at) = at.filter(|_| action != Some("accept")) {
            let asking = self.asking.swap_remove(at);
            // It may have been used meanwhile, or replaced.
            if !asking.form.is_used() {
                let _ = asking.form.form.take();
            }
            self.leave(asking);
        }
    }

    /// Resumes the calls whose forms have been used, and answers those whose forms are no longer valid.
    fn leave_forms(&mut self) {
        let is_over = |asking: &Asking| asking.form.is_used() || asking.form.deadline.has_passed();
        while let Some(at) = self.asking.iter().position(is_over) {
            let Asking { mut pending, ended, form } = self.asking.swap_remove(at);
            let id = Object::new().text("elicitationId", &form.form.id);
            self.send(&message::notification("notifications/elicitation/complete", id));
            let words = tasks::resumed(&pending.words);
            let invocation = Invocation { tool: pending.tool, words, input: Vec::new(), picture: None };
            let call = if form.is_used() { ToolCall::start(invocation).ok() } else { None };
            match call {
                Some(call) => {
                    pending.printed = answer::output(&ended);
                    pending.call = call;
                    self.calls.push(pending);
                }
                None => self.leave(Asking { pending, ended, form }),
            }
        }
    }

    /// Answers the call with its result at the prompt: the model decides what to do.
    fn leave(&mut self, Asking { pending, ended, .. }: Asking) {
        let request = &pending.request;
        self.succeed(request, answer::result(pending.tool, request.form, None, &ended));
    }

    /// A command that has asked at once is a task, too, if the client's user can answer.
    fn asks_by_task(&mut self, pending: &Pending, ended: &Ended) -> bool {
        let request = &pending.request;
        if !(request.has_tasks && request.has_forms && pending.tool == ToolName::Run) {
            return false;
        }
        let Some((printed, question)) = answer::asked_for(ended) else { return false };
        let result = answer::result(pending.tool, request.form, None, ended).value();
        let Some(id) = self.begin_task(request, pending.words.clone(), TaskState::Asks { question, result })
        else {
            return false;
        };
        if let Some(task) = self.tasks.iter_mut().find(|task| task.id == id) {
            task.printed = printed;
        }
        true
    }

    fn succeed(&mut self, asked: &Asked, result: Object) {
        let result = if asked.stateless { complete(result, Object::new()) } else { result };
        self.reply(asked.reply, Some(message::response(&asked.id, result)));
    }

    /// One request has been answered, or never will be.
    fn reply(&mut self, reply: Reply, answer: Option<String>) {
        let Some(number) = reply else {
            if let Some(answer) = answer {
                self.send(&answer);
            }
            return;
        };
        let Some(at) = self.batches.iter().position(|batch| batch.number == number) else { return };
        let batch = &mut self.batches[at];
        batch.awaited -= 1;
        batch.answers.extend(answer);
        if batch.awaited == 0 {
            let answers = self.batches.remove(at).answers;
            if !answers.is_empty() {
                self.send(&format!("[{}]", answers.join(",")));
            }
        }
    }

    fn send(&mut self, line: &str) {
        self.unsent.extend(line.as_bytes());
        self.unsent.push_back(b'\n');
    }
}

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// Is it of the version without a handshake? The request has the version.
fn is_stateless(request: &RpcRequest) -> std::result::Result<bool, RpcError> {
    let refuse = |code, why: String| RpcError::new(Some(&request.id), code, why);
    let meta = match request.params.get("_meta") {
        None => return Ok(false),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err(refuse(INVALID_PARAMS, "invalid params: _meta is not an object".into())),
    };
    match meta.get(VERSION) {
        None => return Ok(false),
        Some(Value::String(version)) if version == STATELESS => {}
        Some(Value::String(version)) => {
            let data = Object::new().list("supported", &[STATELESS.into()]).text("requested", version);
            let mut refusal = refuse(UNSUPPORTED_VERSION, "Unsupported protocol version".into());
            refusal.data = Some(data.value());
            return Err(refusal);
        }
        Some(_) => return Err(refuse(INVALID_PARAMS, format!("invalid params: {VERSION} is not a string"))),
    }
    match meta.get(CAPABILITIES) {
        Some(Value::Object(_)) => Ok(true),
        _ => Err(refuse(INVALID_PARAMS, format!("invalid params: no {CAPABILITIES} in _meta"))),
    }
}

/// The declaration of a client that reads the structure of results, and not their text: the protocol has no
/// capability for it.
const STRUCTURE: &str = "nbs/structured-content";

/// Does its client declare that it reads structure? With a handshake, only `initialize` does.
fn reads_structure(request: &RpcRequest, stateless: bool) -> bool {
    let capabilities = match stateless {
        true => request.params.get("_meta").and_then(|meta| meta.get(CAPABILITIES)),
        false => request.params.get("capabilities"),
    };
    let declared = |kind: &str| capabilities.and_then(|known| known.get(kind)?.get(STRUCTURE)).is_some();
    declared("extensions") || declared("experimental")
}

/// Does its client have tasks, and forms? Without a mode, it is forms that it has.
fn tasks_and_forms(request: &RpcRequest) -> (bool, bool) {
    let capabilities = request.params.get("_meta").and_then(|meta| meta.get(CAPABILITIES));
    let has_tasks = capabilities.and_then(|known| known.get("extensions")?.get(EXTENSION)).is_some();
    (has_tasks, has_mode(capabilities, "form"))
}

/// Does a client with these capabilities ask its user in that way?
fn has_mode(capabilities: Option<&Value>, mode: &str) -> bool {
    let modes = capabilities.and_then(|known| known.get("elicitation")?.as_object());
    modes.is_some_and(|modes| modes.len() == 0 && mode == "form" || modes.contains_key(mode))
}

const INSTRUCTIONS: Text = Text::of("mcp/instructions.md");

fn described(result: Object, has_extensions: bool) -> Object {
    let capabilities = Object::new().object_or_null("tools", Some(Object::new()));
    let capabilities = match has_extensions {
        true => {
            let extensions = Object::new().object_or_null(EXTENSION, Some(Object::new()));
            capabilities.object_or_null("extensions", Some(extensions))
        }
        false => capabilities,
    };
    result.object_or_null("capabilities", Some(capabilities)).text("instructions", INSTRUCTIONS.get())
}

fn ourselves() -> Object {
    Object::new().text("name", "nbs").text("version", env!("CARGO_PKG_VERSION"))
}

/// A result that a client may cache, and for how long: it is the same for all clients.
fn kept(result: Object) -> Object {
    result.number("ttlMs", FRESH_MS).text("cacheScope", "public")
}

/// Adds the fields of every result of the version without a handshake to its own metadata.
fn complete(result: Object, meta: Object) -> Object {
    with_meta(result.text("resultType", "complete"), meta)
}

fn with_meta(result: Object, meta: Object) -> Object {
    let meta = meta.object_or_null("io.modelcontextprotocol/serverInfo", Some(ourselves()));
    result.object_or_null("_meta", Some(meta))
}
