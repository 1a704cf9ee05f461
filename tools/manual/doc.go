// Package manual writes what people read about ebb's commands outside of --help:
// manual pages (docs/man), and completions for bash, zsh and fish
// (deploy/completions). Both are made from the commands themselves.
//
// # Invariants
//
//   - What is in the repository is what the commands give: a test beside each
//     command compares them (package manualtest), and "make docs" rewrites them.
//   - What a command says is shown as it was written, and what is indented is shown
//     line by line: cobra/doc takes texts for Markdown, so that they are escaped.
//   - Pages bear no date and no version, so that the same commands give the same
//     bytes.
package manual
