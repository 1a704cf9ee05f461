// Package manual generates the documentation of ebb's commands outside of --help:
// manual pages (docs/man), and completions for bash, zsh and fish (deploy/completions).
// Both are generated from the commands themselves.
//
// # Invariants
//
//   - The files in the repository match the commands: a test beside each command
//     compares them (package manualtest), and "make docs" rewrites them.
//   - A command's text appears as it was written, indented text line by line. cobra/doc
//     parses texts as Markdown, so they are escaped.
//   - Pages have no date and no version, so that the same commands give the same bytes.
package manual
