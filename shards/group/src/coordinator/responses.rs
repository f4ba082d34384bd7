//! Answers that several requests share.

use bytes::Bytes;

use crate::response::{JoinGroupResponse, OffsetFetchResponse, SyncGroupResponse};
use crate::{ErrorCode, Response, Text};

/// A refused join. Up to v6 the protocol's name could not be null.
pub(super) fn join_error(api_version: i16, error_code: ErrorCode, member_id: Text) -> Response {
    Response::Join(JoinGroupResponse {
        error_code,
        generation_id: -1,
        protocol_type: None,
        protocol_name: (api_version < 7).then_some(Text::EMPTY),
        leader: Text::EMPTY,
        skip_assignment: false,
        member_id,
        members: Vec::new(),
    })
}

pub(super) fn sync_error(error_code: ErrorCode) -> Response {
    Response::Sync(SyncGroupResponse { error_code, protocol_type: None, protocol_name: None, assignment: Bytes::new() })
}

pub(super) fn offset_fetch_error(group_id: Text, error_code: ErrorCode) -> Response {
    Response::OffsetFetch(OffsetFetchResponse { group_id, error_code, topics: Vec::new() })
}
