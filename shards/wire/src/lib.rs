//! ringgate-wire
