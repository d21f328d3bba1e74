//! Clients that send anything, are slow, or do not read.

use super::*;

#[test]
fn a_request_cut_anywhere_does_nothing_and_harms_nothing() {
    let (scratch, handle) = Scratch::with_session("stty -echo; cat");
    let page = Page::start(&scratch);
    let mut events = page.open("");
    events.until_text(&handle, "");
    let request = page.request("POST", &format!("/sessions/{handle}/line"), "typed");
    for cut in 0..request.len() {
        let mut stream = page.connect();
        stream.write_all(&request.as_bytes()[..cut]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "", "{cut}");
    }
    assert_eq!(scratch.file(&handle, "output.log"), "");
    // Byte by byte it is one all the same, and after it another comes on the same connection.
    let kept = request.replace("Connection: close\r\n", "");
    let mut stream = page.connect();
    for byte in kept.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    stream.write_all(request.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 204 No Content\r\n").count(), 2, "{answers}");
    events.until_text(&handle, "typed\ntyped");
}

#[test]
fn oversized_and_invalid_requests_are_rejected() {
    let (scratch, handle) = Scratch::with_session("stty -echo; cat");
    let page = Page::start(&scratch);
    let mut events = page.open("");
    events.settle();
    let path = format!("/sessions/{handle}/text");
    let host = format!("Host: {}\r\n", page.address);
    let long = "x".repeat(100_000);
    for (request, status) in [
        (page.request("POST", &path, &long), 413),
        (format!("GET /{long} HTTP/1.1\r\n{host}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}A: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "A: b\r\n".repeat(1_000)), 431),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: -5\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 501),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/9\r\n{host}\r\n"), 400),
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{host}A\u{0}: b\r\n\r\n"), 400),
        (page.request("GET", "/../../etc/passwd", ""), 404),
        (page.request("DELETE", &path, ""), 405),
    ] {
        let (answered, answer) = page.say(&request);
        assert_eq!(answered, status, "{:?}: {answer}", &request[..request.len().min(100)]);
    }
    let mut random = fastrand::Rng::with_seed(19);
    let whole = page.request("POST", &path, "typed");
    for _ in 0..300 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        let mut stream = page.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(page.ask("GET", "/", "").0, 200);
}

#[test]
fn slow_clients_hold_up_nobody() {
    let (scratch, handle) = Scratch::with_session("cat");
    let page = Page::start(&scratch);
    let mut events = page.open("");
    let slow: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = page.connect();
            let request = page.request("POST", &format!("/sessions/{handle}/line"), "typed");
            // It may have had to go already.
            let _ = stream.write_all(&request.as_bytes()[..number % request.len()]);
            stream
        })
        .collect();
    page.type_in(&handle, "line", "served");
    events.until_text(&handle, "served\nserved");
    drop(slow);
    page.type_in(&handle, "line", "after");
    events.until_text(&handle, "after\nafter");
}

#[test]
fn a_page_that_does_not_read_goes_on_where_it_was() {
    let (scratch, page) = Page::alone();
    // The end of a last line might be drawn by itself, later. Without the pause, a machine that
    // draws slower than this prints would fall further and further behind.
    let flood = "i=0; while [ ! -e stop ]; do i=$((i+1)); seq -s ' ' ${i}000000 ${i}007000; sleep 0.05; \
                 done; printf over; cat";
    let handle = scratch.create_with(&["--size=400x150"], flood);
    let mut asleep = page.open(&format!("focus={handle}"));
    asleep.until_text(&handle, "000");
    let mut awake = page.open(&format!("focus={handle}"));
    let mut told = 0;
    while told < 500_000 {
        told += awake.next().to_string().len();
    }
    fs::write(scratch.path.join("stop"), "").unwrap();
    awake.until_text(&handle, "over");
    asleep.until_text(&handle, "over");
    assert_eq!(asleep.text(&handle), awake.text(&handle));
}
