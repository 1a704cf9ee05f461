package main

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/bench/benchmark"
)

// pages opens the pages of ebb ui in a browser, with what the agent says at that moment. The pictures
// are for docs/command-output.md.
func (b *fixture) pages() {
	ctx, cancel := context.WithCancel(b)
	b.notes.command("ebb ui")
	cmd := exec.CommandContext(ctx, "bin/ebb", "ui")
	cmd.Env, cmd.WaitDelay = b.env, time.Second
	out := need(cmd.StdoutPipe())
	must(cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	line := need(bufio.NewReader(out).ReadString('\n'))
	address := strings.TrimSpace(strings.TrimPrefix(line, "Open "))
	for _, page := range []struct {
		name, path string
		height     string
		want       []string
	}{
		{"nodes", "", "400", []string{nodeName, "enforce"}},
		{"node", "node/" + nodeName, "1400", []string{"Next to go", appImage, "/var/lib/containerd"}},
		{"image", "node/" + nodeName + "/image?id=" + url.QueryEscape(appImage), "900", []string{"in_use", "Rules, in their order"}},
	} {
		text := b.browse("1200,"+page.height, "--dump-dom", address+page.path)
		for _, want := range page.want {
			if !strings.Contains(text, want) {
				fail("the page %q lacks %q:\n%.4000s", page.name, want, text)
			}
		}
		b.browse("1200,"+page.height, "--screenshot="+filepath.Join(b.o.out, "ui-"+page.name+".png"), address+page.path)
	}
	b.notes.ok("a browser shows the node, its images, and why one stays")
}

// browse runs a browser without a window.
func (b *fixture) browse(size string, args ...string) string {
	fixed := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
		"--user-data-dir=" + filepath.Join(b.files, "browser"), "--window-size=" + size, "--timeout=10000"}
	ctx, cancel := context.WithTimeout(b, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", append(fixed, args...)...)
	cmd.Env, cmd.WaitDelay = b.env, time.Second
	out, err := cmd.Output()
	if err != nil {
		fail("chromium: %w", err)
	}
	return string(out)
}

// copyPictures copies the pictures of a run to a directory.
func copyPictures(from, to string) error {
	names, err := filepath.Glob(filepath.Join(from, "ui-*.png"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		if err := benchmark.Copy(filepath.Join(to, filepath.Base(name)), name, 0o644); err != nil {
			return err
		}
	}
	return nil
}
