package chart

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ebb-agent/ebb/tools/process"
)

// Name and namespace of the release that the manifests are rendered for.
const (
	Release   = "ebb"
	Namespace = "ebb-system"
)

// Helm is the pinned Helm, for the chart of one working tree.
type Helm struct {
	binary, root string
}

// Build returns the pinned Helm, and builds it unless the cache has it. root is the
// repository's root.
func Build(ctx context.Context, root string) (*Helm, error) {
	dir, err := process.Output(exec.CommandContext(ctx, filepath.Join(root, "tools/helm/build")))
	if err != nil {
		return nil, fmt.Errorf("build helm: %w", err)
	}
	return &Helm{filepath.Join(strings.TrimSpace(dir), "helm"), root}, nil
}

// Run runs helm on the chart: helm VERB ARGS… deploy/chart. An error includes helm's
// output.
func (h *Helm) Run(ctx context.Context, verb string, args ...string) ([]byte, error) {
	return h.call(ctx, append(append([]string{verb}, args...), h.chart())...)
}

// Release runs helm on the release: install, upgrade, uninstall, …
func (h *Helm) Release(ctx context.Context, verb string, args ...string) ([]byte, error) {
	words := []string{verb, Release, "--namespace", Namespace}
	if verb == "install" || verb == "upgrade" {
		words = append(words, h.chart())
	}
	return h.call(ctx, append(words, args...)...)
}

func (h *Helm) chart() string { return filepath.Join(h.root, "deploy/chart") }

func (h *Helm) call(ctx context.Context, args ...string) ([]byte, error) {
	out, err := process.Output(exec.CommandContext(ctx, h.binary, args...))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return []byte(out), nil
}

// Document is one object that a template rendered.
type Document struct {
	Template string // path below deploy/chart/templates
	Text     []byte
}

// Template renders the chart. Documents are in helm's order of installation.
func (h *Helm) Template(ctx context.Context, args ...string) ([]Document, error) {
	out, err := h.Run(ctx, "template", append([]string{"--namespace", Namespace, "--name-template", Release}, args...)...)
	if err != nil {
		return nil, err
	}
	return documents(out)
}

const sourceMark = "# Source: ebb/templates/"

// documents splits the output of helm template into documents.
func documents(out []byte) (list []Document, err error) {
	for text := range bytes.SplitSeq(append([]byte("\n"), out...), []byte("\n---\n")) {
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			continue
		}
		mark, body, _ := strings.Cut(string(text), "\n")
		template, ok := strings.CutPrefix(mark, sourceMark)
		if !ok {
			return nil, fmt.Errorf("helm template: a document begins with %.80q, not with its source", mark)
		}
		list = append(list, Document{template, []byte(tidy(body))})
	}
	return list, nil
}

// tidy removes empty lines, and blanks at the ends of lines. The text ends with one
// line feed.
func tidy(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
