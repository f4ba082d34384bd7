//! ApiVersions, request and response headers.
