//! Iggy's error codes, as far as the listener answers with them: the `status` of a reply or the code of a
//! committed rejection.

/// An error code of Iggy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl Status { $($(#[$doc])* pub const $name: Status = Status($code);)* }
    };
}

statuses! {
    /// The command or its body cannot be read.
    INVALID_COMMAND = 3;
    /// The command is known and not served here.
    FEATURE_UNAVAILABLE = 5;
    /// An identifier that does not name anything, or one that is missing.
    INVALID_IDENTIFIER = 6;
    /// Nobody has signed in on this link, or the session is gone.
    UNAUTHENTICATED = 40;
    /// Name or password are wrong.
    INVALID_CREDENTIALS = 42;
    /// An earlier attempt of the same request is still being carried out.
    TRANSIENT_NOT_COMMITTED = 57;
    /// Not now; nothing was done.
    TRANSIENT_NOT_ACCEPTED = 58;
    /// The request is so old that it is not known whether it was carried out.
    REQUEST_FORGOTTEN = 85;
}
