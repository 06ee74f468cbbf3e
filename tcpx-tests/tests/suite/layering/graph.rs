//! Cycles among files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::resolve::FileEdges;
use super::tree::Tree;

/// Files that all lead to each other, and some of their cycles. The shortest comes first, and no
/// two of them share an edge.
#[derive(Debug)]
pub(crate) struct Component {
    pub(crate) files: BTreeSet<usize>,
    /// Files in order; the last leads to the first.
    pub(crate) cycles: Vec<Vec<usize>>,
}

/// All components of more than one file.
pub(crate) fn components(edges: &FileEdges) -> Vec<Component> {
    let mut next = BTreeMap::<usize, BTreeSet<usize>>::new();
    for (from, to) in edges.lines.keys() {
        next.entry(*from).or_default().insert(*to);
    }
    let reach: BTreeMap<usize, BTreeSet<usize>> =
        next.keys().map(|from| (*from, reachable(&next, *from))).collect();
    let mut seen = BTreeSet::new();
    let mut components = Vec::new();
    for (file, reached) in &reach {
        let leads_back = |other: &&usize| reach.get(other).is_some_and(|it| it.contains(file));
        let files: BTreeSet<usize> = reached.iter().filter(leads_back).copied().collect();
        if !files.is_empty() && seen.insert(files.clone()) {
            components.push(Component { cycles: cycles(&next, &files), files });
        }
    }
    components
}

/// Files that can be reached from `file`, itself only by a cycle.
fn reachable(next: &BTreeMap<usize, BTreeSet<usize>>, file: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for to in next.get(&file).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(*to);
            }
        }
    }
    reached
}

fn cycles(next: &BTreeMap<usize, BTreeSet<usize>>, files: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> =
        next.iter().map(|(from, to)| (*from, to & files)).collect();
    let mut cycles = Vec::new();
    while let Some(cycle) =
        files.iter().filter_map(|file| shortest_cycle(&next, *file)).min_by_key(Vec::len)
    {
        for (from, to) in pairs(&cycle) {
            next.entry(from).or_default().remove(&to);
        }
        cycles.push(cycle);
    }
    cycles
}

/// The shortest way from a file to itself.
fn shortest_cycle(next: &BTreeMap<usize, BTreeSet<usize>>, start: usize) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for to in next.get(&file).into_iter().flatten() {
            if *to == start {
                let mut cycle = vec![file];
                while let Some(before) = cycle.last().and_then(|last| came_from.get(last)) {
                    cycle.push(*before);
                }
                cycle.reverse();
                return Some(cycle);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(*to) {
                entry.insert(file);
                open.push_back(*to);
            }
        }
    }
    None
}

/// The edges of a cycle.
fn pairs(cycle: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1))
}

/// A component in words: its cycles, with the line that makes each edge.
pub(crate) fn describe(tree: &Tree, edges: &FileEdges, component: &Component) -> String {
    let name = |file: usize| tree.files[file].display();
    let mut text = format!("{} files lead to each other:\n", component.files.len());
    for cycle in &component.cycles {
        let steps = pairs(cycle)
            .map(|(from, to)| format!("{}:{} → ", name(from), edges.lines[&(from, to)]));
        text += &format!("  {}{}\n", steps.collect::<String>(), name(cycle[0]));
    }
    text
}
