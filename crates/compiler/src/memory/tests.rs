use super::*;

fn wanted(name: &str, bytes: u64, first: usize, last: usize) -> Wanted {
    Wanted { name: name.to_owned(), role: Role::Between, bytes, first, last }
}

fn place(arena: u32, offset: u64) -> Place {
    Place { arena, offset }
}

/// A planner that says what it was told to.
struct Told(Vec<Place>, Vec<u64>);

impl Planner for Told {
    fn place(&self, _wanted: &[Wanted], _beyond: u64) -> Result<Vec<Place>, Error> {
        Ok(self.0.clone())
    }

    fn limits(&self) -> &[u64] {
        &self.1
    }
}

fn complaint(tensors: &[Wanted], places: &[Place], limits: &[u64]) -> String {
    let told = Told(places.to_vec(), limits.to_vec());
    Plan::new("forward", tensors.to_vec(), &told, 0).unwrap_err().to_string()
}

#[test]
fn drawings_have_a_box_for_each_tensor_and_a_line_between_arenas() {
    let tensors = vec![wanted("a<b", 100, 0, 1), wanted("c", 50, 1, 2)];
    let plan = Plan::new("forward", tensors.clone(), &Smallest, 0).unwrap();
    assert_eq!((&*plan.places, &*plan.arenas), (&[place(1, 0), place(1, 112)][..], &[176][..]));
    let svg = plan.svg();
    assert_eq!((svg.matches("<rect").count(), svg.matches("<line").count()), (3, 0));
    assert!(svg.contains("c: 50 bytes at 112 of arena 1, instructions 1 to 2"), "{svg}");
    assert!(svg.contains("a&lt;b"), "{svg}");
    let apart = Plan::new("forward", tensors, &Told(vec![place(1, 0), place(2, 0)], Vec::new()), 0).unwrap();
    assert_eq!(apart.svg().matches("<line").count(), 1);
}

#[test]
fn arenas_end_after_their_last_tensor_and_what_is_read_beyond_it() {
    let told = Told(vec![place(1, 32), place(3, 0)], Vec::new());
    let plan = Plan::new("forward", vec![wanted("a", 10, 0, 0), wanted("b", 16, 0, 0)], &told, 64).unwrap();
    assert_eq!((&*plan.arenas, plan.total()), (&[112, 0, 80][..], 192));
    assert_eq!(Plan::new("forward", Vec::new(), &Smallest, 64).unwrap().arenas, [0]);
}

#[test]
fn what_a_planner_says_is_checked() {
    let tensors = [wanted("a", 32, 0, 1), wanted("b", 32, 1, 2), wanted("c", 32, 2, 3)];
    // Those that never meet may share their memory.
    assert!(Plan::new("m", tensors.to_vec(), &Told(vec![place(1, 0), place(1, 32), place(1, 0)], vec![64]), 0).is_ok());
    let cases: [(&[Place], &str); 4] = [
        (&[place(1, 0), place(1, 32)], "the planner gave 2 places for 3 tensors"),
        (&[place(1, 0), place(0, 0), place(1, 0)], "b lies in arena 0; arenas count from 1 to 256"),
        (&[place(1, 0), place(1, 40), place(1, 0)], "b lies at 40, which is not a multiple of 16"),
        (
            &[place(2, 0), place(2, 16), place(1, 0)],
            "a (32 bytes at 0) and b (32 bytes at 16) overlap in arena 2 at instruction 1",
        ),
    ];
    for (places, expected) in cases {
        assert_eq!(complaint(&tensors, places, &[]), format!("the memory of forward: {expected}"));
    }
}

#[test]
fn a_full_arena_says_when_and_by_what() {
    let mut tensors: Vec<Wanted> = (0..7).map(|n| wanted(&format!("t{n}"), 16 * (n + 1), 3, 4)).collect();
    tensors.push(wanted("alone", 400, 5, 5));
    let offsets = tensors.iter().scan(0, |sum, own| {
        *sum += own.bytes;
        Some(*sum - own.bytes)
    });
    let places: Vec<Place> = offsets.map(|offset| place(1, offset)).collect();
    // The seven take 16 * 28 bytes, more than the 400 of the last; all lie side by side.
    assert_eq!(
        complaint(&tensors, &places, &[840]),
        "the memory of forward: arena 1 takes 848 bytes, 8 more than its limit of 840; at instruction 3 448 bytes are \
         wanted there, by t6 (112 bytes), t5 (96 bytes), t4 (80 bytes), t3 (64 bytes), t2 (48 bytes), 2 smaller ones: \
         raise the limit, or add an arena"
    );
}

#[test]
fn tiers_spill_what_stays_long() {
    let tensors =
        vec![wanted("long", 64, 0, 9), wanted("a", 64, 0, 1), wanted("b", 64, 1, 2), wanted("large", 256, 3, 3)];
    let tiers = Tiers { limits: vec![128, u64::MAX] };
    let plan = Plan::new("forward", tensors.clone(), &tiers, 0).unwrap();
    assert_eq!(plan.places.iter().map(|place| place.arena).collect::<Vec<_>>(), [2, 1, 1, 2]);
    assert_eq!(plan.arenas, [128, 320]);
    // What is read beyond the end counts.
    let plan = Plan::new("forward", tensors.clone(), &tiers, 64).unwrap();
    assert!(plan.arenas[0] <= 128, "{plan:?}");
    let tiny = Tiers { limits: vec![32, u64::MAX] };
    let plan = Plan::new("forward", vec![wanted("empty", 0, 0, 1)], &tiny, 64).unwrap();
    assert_eq!(plan.places[0].arena, 2);
    let error = Plan::new("forward", tensors, &Tiers { limits: vec![128, 256] }, 0).unwrap_err().to_string();
    assert!(error.contains("arena 2 takes 320 bytes, 64 more than its limit of 256"), "{error}");
}

#[test]
fn tiers_stay_within_their_limits_whatever_is_wanted() {
    let mut seed = 11u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..200 {
        let tensors: Vec<Wanted> = (0..24)
            .map(|number| {
                let first = random(12) as usize;
                wanted(&number.to_string(), random(600), first, first + random(6) as usize)
            })
            .collect();
        let tiers = Tiers { limits: vec![random(1500), random(1500), u64::MAX] };
        let plan = Plan::new("forward", tensors.clone(), &tiers, 0).unwrap();
        let taken = |index: usize| {
            let (own, place) = (&tensors[index], plan.places[index]);
            (place.arena, place.offset, place.offset + own.bytes)
        };
        for index in 0..tensors.len() {
            let (arena, start, end) = taken(index);
            assert!(end <= tiers.limits[arena as usize - 1], "round {round}");
            for other in (0..index).filter(|&other| tensors[index].meets(&tensors[other])) {
                let (there, from, to) = taken(other);
                let empty = from == to || start == end;
                assert!(there != arena || empty || to <= start || end <= from, "round {round}: {index} and {other}");
            }
        }
    }
}

#[test]
fn what_nothing_bounds_has_an_arena_as_long_as_it_is_wanted() {
    let bounded = vec![wanted("a", 100, 0, 3)];
    let plan = Plan::new("forward", bounded, &Smallest, 0).unwrap();
    assert_eq!(plan.growing_arenas(), 0);
    let free = [wanted("x", 0, 2, 5), wanted("y", 0, 0, 2), wanted("z", 0, 3, 4), wanted("w", 0, 6, 6)];
    let plan = plan.with_growing(&free);
    let arenas: Vec<u32> = plan.growing.iter().map(|place| place.arena).collect();
    assert_eq!(arenas, [3, 2, 2, 2], "x and y are wanted at instruction 2");
    assert_eq!((plan.growing_arenas(), plan.total()), (2, 112));
}
