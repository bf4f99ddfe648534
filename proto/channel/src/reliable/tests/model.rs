//! A search through everything that can happen to two small ledgers, over the code that runs.
//!
//! Frames are lost, repeated and overtake each other; the relay cuts the connection, forges resets and acknowledgements,
//! and replays and reflects resumes; timers fire whenever they are set; applications read when they like. Every state
//! within the stated depth is visited. States that differ in times only count as one: a timer that is set may fire.
//!
//! The properties, in [`PROPERTIES`]:
//!
//! | name | says |
//! |---|---|
//! | in order, exactly once | what an end has is a beginning of what the other one sent |
//! | only what is there is confirmed | a sender has dropped nothing that its peer does not have |
//! | nobody breaks a rule | no end finds fault with what the other one does |
//! | suspended ends are silent | an end that is suspended sends resumes only |
//! | a resume is taken once | epochs that an executor takes grow; a harness takes the answer to its newest |
//! | a resume sends again | behind it, everything that is not confirmed is sent again |
//! | limits grow | the credit of an end is the greatest that it was told |
//! | buffers are bounded | what an application has not taken is never more than the window |
//! | it heals | from here, if nothing more goes wrong, everything arrives within 40 s |
//!
//! Each [`Mutant`] switches one rule off, and has to be noticed.

mod world;

use stateright::{Checker as _, Model, Property};

use self::world::{Action, Faults, World};
use crate::reliable::Switches;
use crate::reliable::mutant::Mutant;

type Rule = fn(&Search, &World) -> bool;

const PROPERTIES: [(&str, Rule); 9] = [
    ("in order, exactly once", |_, world| world.is_in_order()),
    ("only what is there is confirmed", |_, world| world.is_confirmed_there()),
    ("nobody breaks a rule", |_, world| world.fault.is_none()),
    ("suspended ends are silent", |_, world| !world.spoke_suspended),
    ("a resume is taken once", |_, world| !world.took_old_resume),
    ("a resume sends again", |_, world| !world.resumed_silently),
    ("limits grow", |_, world| world.limits_grow()),
    ("buffers are bounded", |_, world| world.is_bounded()),
    ("it heals", |_, world| world.heals()),
];

/// One small world: how many messages each end has, and what may go wrong.
#[derive(Clone, Copy, Debug)]
struct Search {
    messages: [u8; 2],
    faults: Faults,
    depth: usize,
    mutant: Option<Mutant>,
}

impl Model for Search {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.messages, self.faults, Switches(self.mutant))]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        state.actions(actions);
    }

    fn next_state(&self, state: &World, action: Action) -> Option<World> {
        let mut next = state.clone();
        next.act(action).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        PROPERTIES.map(|(name, rule)| Property::always(name, rule)).into()
    }
}

const NONE: Faults = Faults {
    losses: 0,
    repeats: 0,
    cuts: 0,
    replays: 0,
    resets: 0,
    forged_acks: 0,
    timeouts: 1,
};

/// A connection that loses, repeats and reorders; credit that runs out.
const LOSS: Search = Search {
    messages: [3, 0],
    faults: Faults {
        losses: 1,
        repeats: 1,
        ..NONE
    },
    depth: 9,
    mutant: None,
};

/// Connections that are lost, with both ends talking.
const CUTS: Search = Search {
    messages: [1, 1],
    faults: Faults {
        cuts: 2,
        timeouts: 2,
        ..NONE
    },
    depth: 9,
    mutant: None,
};

/// A relay that plays with resumes and resets.
const FORGED_RESUMES: Search = Search {
    messages: [1, 1],
    faults: Faults {
        cuts: 1,
        replays: 1,
        resets: 1,
        timeouts: 2,
        ..NONE
    },
    depth: 9,
    mutant: None,
};

/// A relay that says that lost records arrived.
const FORGED_ACKS: Search = Search {
    messages: [1, 1],
    faults: Faults {
        losses: 2,
        forged_acks: 1,
        ..NONE
    },
    depth: 9,
    mutant: None,
};

const SEARCHES: [Search; 4] = [LOSS, CUTS, FORGED_RESUMES, FORGED_ACKS];

fn is_full() -> bool {
    std::env::var_os("RENDEZVOUS_FULL").is_some_and(|value| value == "1")
}

#[test]
fn no_state_within_the_depth_breaks_a_property() {
    for search in SEARCHES {
        let depth = search.depth + if is_full() { 3 } else { 0 };
        let checker = search.checker().threads(2).target_max_depth(depth).spawn_bfs().join();
        println!("{} states to depth {depth}: {search:?}", checker.unique_state_count());
        checker.assert_properties();
        assert!(checker.unique_state_count() > 1000);
    }
}

/// Which search notices it, and by which property.
const NOTICED: [(Mutant, Search, &str); 13] = [
    (Mutant::HintFrees, FORGED_ACKS, "only what is there is confirmed"),
    (Mutant::HintLasts, FORGED_ACKS, "it heals"),
    (Mutant::EpochRepeats, FORGED_RESUMES, "a resume is taken once"),
    (Mutant::AnswerToAnyEpoch, CUTS, "a resume is taken once"),
    (Mutant::ResumeSendsNothing, CUTS, "a resume sends again"),
    (Mutant::NoTimeout, LOSS, "it heals"),
    (Mutant::ConfirmsEarly, LOSS, "in order, exactly once"),
    (Mutant::TakesTwice, LOSS, "in order, exactly once"),
    (Mutant::SendsSuspended, CUTS, "suspended ends are silent"),
    (Mutant::Overspends, LOSS, "nobody breaks a rule"),
    (Mutant::KeepsCredit, LOSS, "it heals"),
    (Mutant::LimitShrinks, LOSS, "limits grow"),
    (Mutant::CreditsUntaken, LOSS, "buffers are bounded"),
];

#[test]
fn a_missing_rule_is_noticed() {
    for (mutant, search, property) in NOTICED {
        let search = Search {
            mutant: Some(mutant),
            ..search
        };
        // Deep enough for the longest of them; the search ends with the first discovery.
        let checker = search
            .checker()
            .threads(2)
            .target_max_depth(14)
            .finish_when(stateright::HasDiscoveries::AnyOf([property].into()))
            .spawn_bfs()
            .join();
        assert!(checker.discovery(property).is_some(), "{mutant:?} is not noticed");
    }
}
