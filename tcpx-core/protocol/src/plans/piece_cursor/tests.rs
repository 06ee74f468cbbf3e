//! Two ends of one list, each with its own pieces, schedule it to each other.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use slotmap::{Key, SlotMap};

use super::*;
use crate::plans::pieces::Piece;
use crate::plans::pieces::tests::LOOKS;
use crate::plans::plan::ChunkRange;
use crate::types::{MemoryType, RegistrationKey};

/// Layout of one end's pieces: their order, gaps and registrations.
#[derive(Clone, Debug)]
struct Layout {
    /// Sorts the pieces by address.
    ranks: Vec<u64>,
    gaps: Vec<u64>,
    owners: Vec<u32>,
}

const OWNERS: usize = 3;

fn owners() -> Vec<RegistrationKey> {
    let mut keys = SlotMap::with_key();
    (0..OWNERS).map(|_| keys.insert(())).collect()
}

fn layout(pairs: usize) -> impl Strategy<Value = Layout> {
    let ranks = prop_oneof![
        Just((0..pairs as u64).collect::<Vec<_>>()),
        proptest::collection::vec(any::<u64>(), pairs),
    ];
    // Mostly neighbours, mostly of one registration, so that segments have several pieces.
    let gaps = proptest::collection::vec(prop_oneof![2 => Just(0), 1 => 1u64..50], pairs);
    let owners = proptest::collection::vec(prop_oneof![4 => Just(0), 1 => 0..OWNERS as u32], pairs);
    (ranks, gaps, owners).prop_map(|(ranks, gaps, owners)| Layout { ranks, gaps, owners })
}

/// Makes the pieces of an end. The last one ends where addresses do.
fn pieces(lengths: &[u64], layout: &Layout) -> Pieces {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|pair| std::cmp::Reverse(layout.ranks[*pair]));
    let mut pieces = vec![Piece { owner: 0, address: 0, bytes: 0 }; lengths.len()];
    let mut end = u64::MAX;
    for pair in order {
        let bytes = lengths[pair];
        let address = end - bytes;
        pieces[pair] = Piece { owner: layout.owners[pair], address, bytes };
        end = address - layout.gaps[pair];
    }
    Pieces::new(MemoryType::Host, owners(), pieces).expect("pieces that can be")
}

/// Returns the index of each byte of a list, by its place at one end.
fn places(pieces: &Pieces) -> HashMap<(RegistrationKey, u64), u64> {
    let list = (0..).map_while(|index| pieces.get(index));
    let bytes = list.flat_map(|piece| {
        let owner = pieces.owners()[piece.owner as usize];
        (0..piece.bytes).map(move |at| (owner, piece.address + at))
    });
    bytes.zip(0..).collect()
}

/// The chunks of each channel, in order: for each the bytes of the list that it has.
type Channels = Vec<VecDeque<Vec<u64>>>;

/// One end.
struct End {
    pieces: Pieces,
    cursor: PieceCursor,
    places: HashMap<(RegistrationKey, u64), u64>,
    channels: Channels,
}

impl End {
    fn new(pieces: Pieces, channels: u16) -> Self {
        let places = places(&pieces);
        let channels = vec![VecDeque::new(); usize::from(channels)];
        Self { pieces, cursor: PieceCursor::default(), places, channels }
    }

    /// Deals a section, checks each plan by itself, and notes its chunks.
    fn schedule(&mut self, section: ListedSection, may_gather: bool) -> Result<(), TestCaseError> {
        let before = self.cursor.scheduled;
        let mut plans = self.cursor.schedule(&self.pieces, section);
        while let Some(plan) = plans.next_plan(Vec::new) {
            let members = plan.members.as_slice().to_vec();
            let sum: u64 = members.iter().map(|member| member.bytes).sum();
            prop_assert_eq!((sum, plan.offset), (plan.bytes, 0));
            prop_assert_eq!(plan.chunk_bytes, section.chunk_bytes);
            let is_shared = matches!(plan.members, Members::Many(_));
            let is_gathered = is_shared && section.direction == Direction::Send;
            prop_assert_eq!(plan.gathered, is_gathered.then_some(MemoryType::Host));
            prop_assert!(may_gather || !is_gathered, "{:?}", plan);
            if is_shared {
                prop_assert!(members.len() > 1 && sum <= u64::from(section.chunk_bytes));
                let apart = members.windows(2).all(|pair| !pair[0].is_followed_by(&pair[1]));
                prop_assert!(apart, "neighbours are one member");
            }
            for (channel, mut stripe) in plan.stripes() {
                while let Some(range) = stripe.peek() {
                    prop_assert!(range.bytes > 0 && range.bytes <= section.chunk_bytes);
                    let chunk = bytes_of(&self.places, &members, is_shared, range)?;
                    self.channels[usize::from(channel)].push_back(chunk);
                    stripe.advance();
                }
            }
        }
        prop_assert_eq!(self.cursor.scheduled, before + section.bytes);
        Ok(())
    }
}

/// Returns the bytes of the list that a chunk has, in its order. Each must be in a piece.
fn bytes_of(
    places: &HashMap<(RegistrationKey, u64), u64>,
    members: &[Member],
    is_shared: bool,
    range: ChunkRange,
) -> Result<Vec<u64>, TestCaseError> {
    let (offset, most) = if is_shared { (0, u64::MAX) } else { (range.offset, range.bytes.into()) };
    let mut bytes = Vec::new();
    for Member { span, bytes: member_bytes, .. } in members {
        for at in offset..(offset.saturating_add(most)).min(*member_bytes) {
            let place = (span.registration, span.address + at);
            let Some(byte) = places.get(&place) else {
                return Err(TestCaseError::fail(format!("{place:?} is in no piece")));
            };
            bytes.push(*byte);
        }
    }
    prop_assert_eq!(bytes.len(), range.bytes as usize);
    Ok(bytes)
}

/// Returns how many segments the sender finds in the next bytes.
fn segments(mut cursor: PieceCursor, pieces: &Pieces, mut bytes: u64) -> Vec<u64> {
    let mut found = Vec::new();
    while let Some(segment) = cursor.take(pieces, bytes, usize::MAX) {
        bytes -= segment.bytes;
        found.push(segment.bytes);
    }
    found
}

fn section(bytes: u64, chunk_bytes: u32, first_channel: u16, channels: u16) -> ListedSection {
    ListedSection {
        op: OpKey::null(),
        transfer: TransferKey::null(),
        direction: Direction::Send,
        bytes,
        chunk_bytes,
        first_channel,
        channels: ChannelSet::first(channels),
    }
}

fn lists() -> impl Strategy<Value = (Vec<u64>, Layout, Layout)> {
    let length = prop_oneof![4 => 1u64..40, 1 => 40u64..400];
    proptest::collection::vec(length, 1..40).prop_flat_map(|lengths| {
        let pairs = lengths.len();
        (Just(lengths), layout(pairs), layout(pairs))
    })
}

fn rules() -> impl Strategy<Value = CutRules> {
    let gathering = (1u64..100, 1usize..6)
        .prop_map(|(segment_bytes, segments)| Gathering { segment_bytes, segments });
    (1u64..1000, proptest::option::of(gathering), any::<bool>()).prop_map(
        |(section_bytes, gathering, cut_pairs)| CutRules { section_bytes, gathering, cut_pairs },
    )
}

/// A list that both ends move, and how.
#[derive(Clone, Debug)]
struct Moved {
    list: (Vec<u64>, Layout, Layout),
    rules: CutRules,
    chunk_bytes: Vec<u32>,
    channels: u16,
    first: u16,
}

fn moved() -> impl Strategy<Value = Moved> {
    let chunk_bytes = proptest::collection::vec(1u32..300, 1..5);
    (lists(), rules(), chunk_bytes, 1u16..5, 0u16..5).prop_map(
        |(list, rules, chunk_bytes, channels, first)| Moved {
            list,
            rules,
            chunk_bytes,
            channels,
            first,
        },
    )
}

fn both_ends_move_the_same(moved: Moved) -> Result<(), TestCaseError> {
    let Moved { list: (lengths, left, right), rules, chunk_bytes, channels, first } = moved;
    let mut sender = End::new(pieces(&lengths, &left), channels);
    let mut receiver = End::new(pieces(&lengths, &right), channels);
    let mut first_channel = first % channels;
    let mut sections = 0;
    while let Some(cut) = sender.cursor.next_section(&sender.pieces, &rules) {
        prop_assert!((1..=rules.section_bytes).contains(&cut.bytes));
        let found = segments(sender.cursor, &sender.pieces, cut.bytes);
        prop_assert_eq!(cut.is_gathered, found.len() > 1);
        if cut.is_gathered {
            let gathering = rules.gathering.expect("what may be gathered");
            prop_assert!(!rules.cut_pairs && found.len() >= gathering.segments);
            prop_assert!(found.iter().all(|bytes| *bytes <= gathering.segment_bytes));
        }
        prop_assert!(receiver.cursor.allows(&receiver.pieces, cut.bytes, rules.cut_pairs));
        let is_whole = receiver.cursor.ends_a_piece(&receiver.pieces, cut.bytes);
        prop_assert!(is_whole || cut.bytes == rules.section_bytes);
        let chunk_bytes = chunk_bytes[sections % chunk_bytes.len()];
        let scheduled = section(cut.bytes, chunk_bytes, first_channel, channels);
        sender.schedule(scheduled, cut.is_gathered)?;
        let received = ListedSection { direction: Direction::Receive, ..scheduled };
        receiver.schedule(received, false)?;
        let behind = u64::from(first_channel) + chunk_count(cut.bytes, chunk_bytes);
        first_channel = (behind % u64::from(channels)) as u16;
        sections += 1;
    }
    prop_assert_eq!(&sender.channels, &receiver.channels, "a chunk has the same bytes");
    let mut all: Vec<u64> = sender.channels.into_iter().flatten().flatten().collect();
    all.sort_unstable();
    let total: u64 = lengths.iter().sum();
    prop_assert_eq!(all, (0..total).collect::<Vec<_>>(), "each byte once");
    prop_assert_eq!(sender.cursor.scheduled, total);
    prop_assert!(!receiver.cursor.allows(&receiver.pieces, 1, false), "nothing is left");
    Ok(())
}

/// A list of one end, and lengths of sections that the end hears of, which may be any.
#[derive(Clone, Debug)]
struct DeferredPlan {
    list: (Vec<u64>, Layout, Layout),
    told: Vec<u64>,
    cut_pairs: bool,
    chunk_bytes: u32,
}

fn scheduled() -> impl Strategy<Value = DeferredPlan> {
    let told = proptest::collection::vec(prop_oneof![0u64..500, any::<u64>()], 1..20);
    (lists(), told, any::<bool>(), 1u32..300).prop_map(|(list, told, cut_pairs, chunk_bytes)| {
        DeferredPlan { list, told, cut_pairs, chunk_bytes }
    })
}

fn an_allowed_section_is_dealt_to_its_end(scheduled: DeferredPlan) -> Result<(), TestCaseError> {
    let DeferredPlan { list: (lengths, layout, _), told, cut_pairs, chunk_bytes } = scheduled;
    let mut end = End::new(pieces(&lengths, &layout), 2);
    for bytes in told {
        let left = end.pieces.bytes - end.cursor.scheduled;
        let scheduled: u64 = end.cursor.scheduled;
        let ends = lengths.iter().scan(0, |end, bytes| {
            *end += bytes;
            Some(*end)
        });
        let crosses =
            ends.clone().any(|end| end > scheduled && end < scheduled.saturating_add(bytes));
        let is_allowed = bytes > 0 && bytes <= left && !(cut_pairs && crosses);
        prop_assert_eq!(end.cursor.allows(&end.pieces, bytes, cut_pairs), is_allowed);
        if is_allowed {
            let ends_one = ends.into_iter().any(|end| end == scheduled + bytes);
            prop_assert_eq!(end.cursor.ends_a_piece(&end.pieces, bytes), ends_one);
            let mut skipped = end.cursor;
            skipped.skip(&end.pieces, bytes, usize::MAX);
            let received = section(bytes, chunk_bytes, 0, 2);
            end.schedule(ListedSection { direction: Direction::Receive, ..received }, false)?;
            prop_assert_eq!(skipped, end.cursor);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn both_ends_move_the_same_bytes_in_the_same_chunks(moved in moved()) {
        both_ends_move_the_same(moved)?;
    }

    #[test]
    fn a_section_that_is_allowed_is_dealt_to_its_end(scheduled in scheduled()) {
        an_allowed_section_is_dealt_to_its_end(scheduled)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    #[ignore = "deep: 512 lists"]
    fn both_ends_move_the_same_bytes_of_many_lists_in_the_same_chunks(moved in moved()) {
        both_ends_move_the_same(moved)?;
    }

    #[test]
    #[ignore = "deep: 512 lists"]
    fn a_section_of_many_lists_that_is_allowed_is_dealt_to_its_end(scheduled in scheduled()) {
        an_allowed_section_is_dealt_to_its_end(scheduled)?;
    }
}

/// Returns a list of pieces of 4 KiB: neighbours, or every second page.
fn pages(count: u64, distance: u64) -> Pieces {
    let page = |at| Piece { owner: 0, address: 4096 + at * distance, bytes: 4096 };
    Pieces::new(MemoryType::Host, owners(), (0..count).map(page).collect()).expect("pages")
}

const GATHERS: CutRules = CutRules {
    section_bytes: 4 << 20,
    gathering: Some(Gathering { segment_bytes: 16 << 10, segments: 2 }),
    cut_pairs: false,
};

/// Deals all of a list. Yields what was cut, and how many plans were made of each section.
fn schedule_all(pieces: &Pieces, rules: &CutRules) -> Vec<(CutSection, usize)> {
    let mut cursor = PieceCursor::default();
    let mut sections = Vec::new();
    while let Some(cut) = cursor.next_section(pieces, rules) {
        let mut plans = cursor.schedule(pieces, section(cut.bytes, 512 << 10, 0, 4));
        let mut count = 0;
        while plans.next_plan(Vec::new).is_some() {
            count += 1;
        }
        sections.push((cut, count));
    }
    sections
}

#[test]
fn scattered_pages_are_gathered_and_neighbours_are_sent_from_where_they_lie() {
    let gathered = CutSection { bytes: 4 << 20, is_gathered: true };
    assert_eq!(schedule_all(&pages(2048, 8192), &GATHERS), [(gathered, 8); 2]);
    let in_place = CutSection { is_gathered: false, ..gathered };
    assert_eq!(schedule_all(&pages(2048, 4096), &GATHERS), [(in_place, 1); 2]);
    let nothing_gathers = CutRules { gathering: None, ..GATHERS };
    let page = CutSection { bytes: 4096, is_gathered: false };
    assert_eq!(schedule_all(&pages(100, 8192), &nothing_gathers), [(page, 1); 100]);
    let cut_pairs = CutRules { cut_pairs: true, ..GATHERS };
    assert_eq!(schedule_all(&pages(100, 4096), &cut_pairs), [(page, 1); 100]);
}

#[test]
fn a_long_segment_ends_what_is_gathered_before_it() {
    let lengths = [4096, 4096, 1 << 20, 4096, 1 << 20];
    let mut address = 0;
    let piece = |bytes| {
        address += 8192;
        let piece = Piece { owner: 0, address, bytes };
        address += bytes;
        piece
    };
    let list = lengths.map(piece).to_vec();
    let list = Pieces::new(MemoryType::Host, owners(), list).expect("pieces");
    let cut = |bytes, is_gathered| CutSection { bytes, is_gathered };
    let cuts: Vec<CutSection> = schedule_all(&list, &GATHERS).iter().map(|(cut, _)| *cut).collect();
    let (page, long) = (cut(4096, false), cut(1 << 20, false));
    assert_eq!(cuts, [cut(8192, true), long, page, long]);
}

/// However long the list is, and wherever its pieces lie.
#[test]
fn dealing_looks_at_each_piece_a_few_times() {
    for distance in [4096, 8192] {
        for rules in [GATHERS, CutRules { cut_pairs: true, ..GATHERS }] {
            let list = pages(100_000, distance);
            LOOKS.set(0);
            let sections = schedule_all(&list, &rules).len();
            assert!(sections >= 98 && LOOKS.get() < 1_000_000, "{} looks", LOOKS.get());
        }
    }
}

/// One frame makes a bounded number of plans, whatever it says.
#[test]
fn a_section_is_of_a_bounded_number_of_pairs() {
    let most = MAX_SECTION_PAIRS as u64;
    let byte = |at| Piece { owner: 0, address: 4096 + 2 * at, bytes: 1 };
    let apart = Pieces::new(MemoryType::Host, owners(), (0..2 * most).map(byte).collect());
    let apart = apart.expect("pieces");
    let cut = PieceCursor::default().next_section(&apart, &GATHERS);
    assert_eq!(cut, Some(CutSection { bytes: most, is_gathered: true }));
    assert!(PieceCursor::default().allows(&apart, most, false));
    assert!(!PieceCursor::default().allows(&apart, most + 1, false));

    let huge = [1 << 50, 1, 1 << 50].map(|bytes| Piece { owner: 0, address: 1, bytes });
    let huge = Pieces::new(MemoryType::Host, owners(), huge.to_vec()).expect("pieces");
    let mut cursor = PieceCursor::default();
    assert!(cursor.allows(&huge, huge.bytes, false));
    let mut plans = cursor.schedule(&huge, section(huge.bytes, 4096, 0, 4));
    let sizes = std::iter::from_fn(|| plans.next_plan(Vec::new).map(|plan| plan.bytes));
    assert_eq!(sizes.collect::<Vec<_>>(), [1 << 50, 4096, (1 << 50) - 4095]);
}
