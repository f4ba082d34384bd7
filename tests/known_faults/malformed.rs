//! Malformed requests and denial of service.
