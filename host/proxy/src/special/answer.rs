//! What is to be done about a call.

/// What to do about a call.
#[derive(Debug)]
pub enum Special {
    /// Nothing: make it.
    No,
    /// It has been carried out, with this result.
    Answer(i64),
}
