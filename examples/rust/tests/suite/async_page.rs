//! Test that the page on async programs shows functions of the example, which the other tests run.

#[test]
fn the_page_shows_the_loop_of_the_example() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/async.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, block) = page.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let example = include_str!("../../async_tokio.rs");
    let (_, shown) =
        example.split_once("// The page docs/async.md shows these two functions.\n").unwrap();
    let (shown, _) = shown.split_once("    // Here they end.").unwrap();
    let shown: String = shown
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n")
        .collect();
    assert_eq!(block, shown);
}
