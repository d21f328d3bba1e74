//! far - executes calls that come from another machine
//!
//! An internal role. The bridge of another machine has put this file here. Its script asks what the
//! file is (`nbs-far prove`), and becomes it (`nbs-far connect BRIDGE CONTENT`), with the connection
//! as standard input and output. That starts `nbs-far serve BRIDGE CONTENT`, which prints `+` when
//! it listens, or `-` and why it cannot.

use std::io::{self, IsTerminal};

use crate::{
    cli::{self, Args},
    machine::{executable, far},
    outcome::{Result, Trying},
    sys::inherited,
};

pub(crate) fn run(args: &mut Args) -> Result<()> {
    let words = args.words()?;
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let is_digits = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match words[..] {
        ["prove"] => cli::print(format!("{}\n", executable::ours().trying("read our own file")?)),
        ["connect", bridge, content]
            if is_digits(bridge) && is_digits(content) && !io::stdin().is_terminal() =>
        {
            inherited::shed().trying("close inherited descriptors")?;
            far::connect(bridge, content)
        }
        ["serve", bridge, content] if is_digits(bridge) && is_digits(content) => {
            cli::started_by_us()?;
            inherited::shed().trying("close inherited descriptors")?;
            far::serve(bridge, content)
        }
        _ => Err(cli::by_hand()),
    }
}
