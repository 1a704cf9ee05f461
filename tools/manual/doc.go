// Package manual writes what people read about ebb's commands outside of --help:
// manual pages (docs/man), and completions for bash, zsh and fish
// (deploy/completions). Both are made from the commands themselves.
//
// # Invariants
//
//   - What is in the repository is what the commands give: a test beside each
//     command compares them (package manualtest), and "make docs" rewrites them.
//   - No text of a command is taken for a request of roff's: it is shown as it was
//     written, and what is indented is shown line by line.
//   - Pages bear no date and no version, so that the same commands give the same
//     bytes.
//
// # Why not cobra's own
//
// cobra/doc takes texts for Markdown, and so eats the star of
// "--controllers=*,-garbage-collector-controller".
//
// # Sources
//
// man(7), groff_man(7), groff_char(7); cobra's bash_completionsV2.go.
package manual
