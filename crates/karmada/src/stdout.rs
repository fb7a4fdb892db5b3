//! Standard output of the commands that print something.

use std::io::{ErrorKind, Write as _};

/// Prints the text. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
