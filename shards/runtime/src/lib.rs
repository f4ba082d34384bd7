//! ringgate-runtime
