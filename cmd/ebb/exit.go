package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// exitTable is in the help of commands, and in docs/commands.md.
const exitTable = `Exit codes:

  0  fine
  1  error: the command failed, or did only a part
  2  wrong usage: the command did nothing
  3  finding: something needs attention
  4  incomplete: a node did not answer, or something could not be read`

// Exit codes of all commands.
const (
	exitError      = 1 // it could not be done, or only in part
	exitUsage      = 2 // what was asked for makes no sense: nothing was done
	exitFindings   = exitCode(3)
	exitIncomplete = exitCode(4)
)

// exitCode is the error of a command that did what it was asked for, and ends with another code
// than 0. No message is printed for it.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is an error in how a command was called.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// codeOf is the exit code of a command that ended with err.
func codeOf(err error) int {
	var verdict exitCode
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &verdict):
		return int(verdict)
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitError
}

// noteStart makes a command and its children set ran when they start. An error before that is a
// usage error.
func noteStart(cmd *cobra.Command, ran *bool) {
	if start := cmd.RunE; start != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*ran = true
			return start(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		noteStart(child, ran)
	}
}

// outcome returns how a command ends that has an answer. Findings take precedence over missing
// parts.
func outcome(found, incomplete bool) error {
	switch {
	case found:
		return exitFindings
	case incomplete:
		return exitIncomplete
	}
	return nil
}
