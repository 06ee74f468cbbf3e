//! Circles among files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::resolve::Edges;
use super::tree::Tree;

/// Files that all lead to each other, and some of their circles. The shortest comes first, and no
/// two of them share an edge.
#[derive(Debug)]
pub(crate) struct Knot {
    pub(crate) files: BTreeSet<usize>,
    /// Files in order; the last leads to the first.
    pub(crate) circles: Vec<Vec<usize>>,
}

/// All knots of more than one file.
pub(crate) fn knots(edges: &Edges) -> Vec<Knot> {
    let mut next = BTreeMap::<usize, BTreeSet<usize>>::new();
    for (from, to) in edges.lines.keys() {
        next.entry(*from).or_default().insert(*to);
    }
    let reach: BTreeMap<usize, BTreeSet<usize>> =
        next.keys().map(|from| (*from, reachable(&next, *from))).collect();
    let mut seen = BTreeSet::new();
    let mut knots = Vec::new();
    for (file, reached) in &reach {
        let leads_back = |other: &&usize| reach.get(other).is_some_and(|it| it.contains(file));
        let files: BTreeSet<usize> = reached.iter().filter(leads_back).copied().collect();
        if !files.is_empty() && seen.insert(files.clone()) {
            knots.push(Knot { circles: circles(&next, &files), files });
        }
    }
    knots
}

/// Files that can be reached from `file`, itself only by a circle.
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

fn circles(next: &BTreeMap<usize, BTreeSet<usize>>, files: &BTreeSet<usize>) -> Vec<Vec<usize>> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> =
        next.iter().map(|(from, to)| (*from, to & files)).collect();
    let mut circles = Vec::new();
    while let Some(circle) =
        files.iter().filter_map(|file| shortest_circle(&next, *file)).min_by_key(Vec::len)
    {
        for (from, to) in pairs(&circle) {
            next.entry(from).or_default().remove(&to);
        }
        circles.push(circle);
    }
    circles
}

/// The shortest way from a file to itself.
fn shortest_circle(next: &BTreeMap<usize, BTreeSet<usize>>, start: usize) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(file) = open.pop_front() {
        for to in next.get(&file).into_iter().flatten() {
            if *to == start {
                let mut circle = vec![file];
                while let Some(before) = circle.last().and_then(|last| came_from.get(last)) {
                    circle.push(*before);
                }
                circle.reverse();
                return Some(circle);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(*to) {
                entry.insert(file);
                open.push_back(*to);
            }
        }
    }
    None
}

/// The edges of a circle.
fn pairs(circle: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    circle.iter().copied().zip(circle.iter().copied().cycle().skip(1))
}

/// A knot in words: its circles, with the line that makes each edge.
pub(crate) fn describe(tree: &Tree, edges: &Edges, knot: &Knot) -> String {
    let name = |file: usize| tree.files[file].display();
    let mut text = format!("{} files lead to each other:\n", knot.files.len());
    for circle in &knot.circles {
        let steps = pairs(circle)
            .map(|(from, to)| format!("{}:{} → ", name(from), edges.lines[&(from, to)]));
        text += &format!("  {}{}\n", steps.collect::<String>(), name(circle[0]));
    }
    text
}
