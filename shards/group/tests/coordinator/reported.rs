//! Faults that users reported of other coordinators and that take minutes to show: with simulated time.

use ringgate_group::ErrorCode;

use crate::world::*;

#[test]
fn k063_a_newcomer_that_was_given_up_does_not_keep_the_others_from_their_generation() {
    let mut w = World::new();
    let mut clients: Vec<Client> = (1..=2).map(Client::new).collect();
    for client in &mut clients {
        // They are slow, and may be: their rebalance timeout is far off.
        client.rebalance_ms = 1_000_000;
        client.session_ms = 1_000_000;
    }
    w.form(&mut clients);
    w.settle(&clients);
    let generation = clients[0].generation;
    let mut newcomer = Client::new(9);
    let parked = w.enter(&mut newcomer);
    w.advance(5 * 60 * 1000 - 1);
    w.parked(parked);
    assert_eq!(w.describe().members.len(), 3);
    w.advance(1);
    let answer = w.joined(parked);
    assert_eq!((answer.error_code, answer.member_id.as_str()), (ErrorCode::UNKNOWN_MEMBER_ID, ""));
    assert_eq!((w.describe().members.len(), &w.state()[..]), (2, "PreparingRebalance"));
    let joins: Vec<_> = clients.iter().map(|client| w.join(client.connection, client.join_request())).collect();
    for (client, join) in clients.iter_mut().zip(joins) {
        let answer = w.joined(join);
        assert_eq!((answer.error_code, answer.generation_id), (ErrorCode::NONE, generation + 1));
        client.takes(&answer);
    }
    w.settle(&clients);
    assert_eq!(w.state(), "Stable");
    assert!(clients.iter().all(|client| w.heartbeat(client) == ErrorCode::NONE));
}
