package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/show"
)

// answer is the output of a command about agents, in each format.
type answer struct {
	text     func(io.Writer, show.View) error
	document func() (any, error)
	names    func() []string // nil: the command has no such format
}

// answerOf returns an answer whose document is the pages as they are.
func answerOf[P any](nodes []show.Node[P], text func(io.Writer, show.View) error, names func() []string) answer {
	return answer{text, func() (any, error) { return show.NewDocument(nodes) }, names}
}

func (a *agentAccess) write(w io.Writer, s answer) error {
	switch a.output {
	case "text":
		return s.text(w, viewOf(w))
	case "name":
		return show.WriteNames(w, s.names())
	}
	d, err := s.document()
	if err != nil {
		return err
	}
	if a.output == "yaml" {
		return show.WriteYAML(w, d)
	}
	return show.WriteJSON(w, d)
}

// writeNodes writes what agents have answered, and returns the outcome of the command. found reports whether
// there is something that the user should act on.
func writeNodes[P any](a *agentAccess, w io.Writer, nodes []show.Node[P], s answer, found bool) error {
	if err := a.write(w, s); err != nil {
		return err
	}
	return outcome(found, show.Silent(nodes) > 0)
}

// viewOf returns the view of a terminal. For any other writer, it returns a view without limits.
func viewOf(w io.Writer) show.View {
	f, ok := terminal(w)
	if !ok {
		return show.View{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return show.View{}
	}
	return show.View{Width: width, Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func terminal(of any) (*os.File, bool) {
	f, ok := of.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// nodesOf converts results to the form in which package show takes them.
func nodesOf[P any](results []desk.Result[P]) []show.Node[P] {
	nodes := make([]show.Node[P], len(results))
	for i, r := range results {
		nodes[i] = show.Node[P]{Name: r.Agent.Node, Page: r.Value, Err: r.Err}
	}
	return nodes
}

// someAnswer returns an error if there are nodes and none answered: then there is nothing to show.
func someAnswer[P any](nodes []show.Node[P]) error {
	if len(nodes) == 0 || show.Silent(nodes) < len(nodes) {
		return nil
	}
	first := nodes[0].Err
	if len(nodes) == 1 {
		return fmt.Errorf("node %s: %w", show.Clean(nodes[0].Name), first)
	}
	for _, n := range nodes {
		if n.Err.Error() != first.Error() {
			return fmt.Errorf("none of %d nodes answers; %s: %w", len(nodes), show.Clean(nodes[0].Name), first)
		}
	}
	return fmt.Errorf("none of %d nodes answers: %w", len(nodes), first)
}
