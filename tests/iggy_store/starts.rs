//! What keeps a gateway from starting.

use crate::common::gateway::{Gateway, IGGY_PASSWORD, Options};

#[test]
fn a_wrong_user_or_password_ends_the_start_and_says_so() {
    let server = Gateway::start(Options::new(1).iggy());
    let wrong = Options::new(1).on_iggy_at(server.iggy());
    let (status, written) = Gateway::start_in_vain(&wrong.set("iggy-username", "nobody"));
    assert_eq!(status.code(), Some(1), "{written}");
    assert!(written.contains("refuses the gateway") && written.contains("password is wrong"), "{written}");
    assert!(!written.contains(IGGY_PASSWORD), "{written}");
}

#[test]
fn a_server_that_is_not_there_yet_is_waited_for() {
    let mut server = Gateway::start(Options::new(1).iggy());
    let address = server.iggy();
    server.kill9();
    let starting = std::thread::spawn(move || Gateway::start(Options::new(1).on_iggy_at(address)));
    server.restart(Options::new(1).iggy());
    let mut gateway = starting.join().expect("it starts");
    assert!(gateway.is_alive());
    assert!(gateway.sigterm().success());
}
