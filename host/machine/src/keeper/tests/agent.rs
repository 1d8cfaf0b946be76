//! What becomes of a machine's agent, or of one that it should have.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::*;

/// A keeper of a node whose agent's end is given, the node as its yod has it, and how to say that its state has changed.
fn with_node(act: impl FnOnce(&Keeper, &Node, OwnedFd, &dyn Fn()) + Send + 'static) {
    hang::not(|| {
        let test = Test::new(pieces());
        let (agent, agents) = Agent::new().expect("a socket");
        *test.launch.machine.agent.lock().expect("no panic") = Some(agent);
        let (plan, job) = (test.plan, test.job());
        let (ours, keepers) = pair();
        let Test {
            launch,
            log,
            death,
            seen,
            ..
        } = test;
        let keeper_thread = std::thread::spawn(move || keep(&launch, job, keepers));
        let Ok(Seen::Started { bells, .. }) = seen.recv() else {
            panic!("not started");
        };
        let (keeper, node) = join(ours);
        act(&keeper, &node, agents, &|| ring(&bells.host[plan.ranks]));
        drop((keeper, node));
        assert!(keeper_thread.join().expect("no panic").is_ok());
        drop((log, death, seen));
    });
}

fn say(agents: &OwnedFd, words: [u64; 3]) {
    let bytes = words.map(u64::to_ne_bytes);
    send(agents, bytes.as_flattened(), SendFlags::empty()).expect("room");
}

/// What proxies are to have: a request that comes to the agent, or the error that ends it.
fn request(node: &Node) -> Result<usize, Errno> {
    let agent = node.agent.as_ref().expect("a socket");
    send(agent, &[0; 32], SendFlags::NOSIGNAL)
}

fn up() -> Event {
    Event::State {
        state: node::UP,
        log: String::new(),
    }
}

#[test]
fn an_agent_is_handed_to_the_yods_and_what_it_lost_is_in_the_log() {
    with_node(|keeper, node, agents, changed| {
        say(&agents, [3, 0, 0]);
        node.comm.header().reach(node::UP);
        changed();
        assert_eq!(next_event(keeper), up());
        assert_eq!(request(node), Ok(32));
        assert!(rings(&agents));
        for (offset, core, by) in [(0x3000, 1, ", touched by core 1"), (0x4000, u64::MAX, "")] {
            // Touched again, it is not said again.
            say(&agents, [4, offset, core]);
            say(&agents, [4, offset, core]);
            let line = format!("agent: a page of a file is gone, at {offset:#x} of the pool{by}\n");
            assert_eq!(next_event(keeper), Event::Log(line));
        }
        let mut request = [0; 40];
        for offset in [0x3000, 0x4000] {
            // What the test itself had sent came before.
            while recv(&agents, &mut request[..], RecvFlags::empty())
                .is_ok_and(|(_, len)| len != 40)
            {}
            let (words, _) = request.as_chunks();
            assert_eq!(
                [0, 1].map(|word| u64::from_ne_bytes(words[word])),
                [6, offset]
            );
        }
    });
}

/// Proxies would have waited for a machine that did not load it.
#[test]
fn an_agent_that_is_not_there_when_the_node_is_refuses_all() {
    with_node(|keeper, node, _agents, changed| {
        node.comm.header().reach(node::UP);
        changed();
        let line = String::from_utf8_lossy(running::NO_AGENT).into_owned();
        assert_eq!(next_event(keeper), Event::Log(line));
        assert_eq!(next_event(keeper), up());
        assert_eq!(request(node), Err(Errno::PIPE));
    });
}
