package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium, driven as the WebDriver standard has it.
type browser struct {
	*testing.T
	session string // its address
}

// newBrowser starts one; without scripts it runs none.
func newBrowser(t *testing.T, scripts bool) *browser {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	driver := exec.CommandContext(ctx, "chromedriver", "--port=0")
	out, err := driver.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.Start(); err != nil {
		t.Fatalf("start chromedriver (package chromium-driver): %v", err)
	}
	t.Cleanup(func() {
		cancel()
		_ = driver.Wait() // killed
	})
	var port int
	var output strings.Builder
	for port == 0 {
		line := make([]byte, 512)
		n, err := out.Read(line)
		output.Write(line[:n])
		if err != nil {
			t.Fatalf("chromedriver ends: %v: %s", err, output.String())
		}
		if _, after, found := strings.Cut(output.String(), "successfully on port "); found && strings.Contains(after, ".") {
			_, _ = fmt.Sscanf(after, "%d", &port)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	b := &browser{T: t, session: fmt.Sprintf("http://127.0.0.1:%d/session", port)}
	content := 1
	if !scripts {
		content = 2
	}
	var made struct{ SessionID string }
	b.do(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName":       "chrome",
		"goog:loggingPrefs": map[string]any{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{
			"binary": "/usr/bin/chromium",
			"prefs":  map[string]any{"profile.managed_default_content_settings.javascript": content},
			"args": []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
				"--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir()},
		},
	}}}, &made)
	b.session += "/" + made.SessionID
	t.Cleanup(func() { b.do(http.MethodDelete, "", nil, nil) })
	return b
}

// do sends a command, and takes its answer's value.
func (b *browser) do(method, path string, body, into any) {
	b.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			b.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(context.Background(), method, b.session+path, bytes.NewReader(data))
	if err != nil {
		b.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	var answer struct{ Value json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s %s: %s, %v: %.600s", method, path, resp.Status, err, answer.Value)
	}
	if into != nil {
		if err := json.Unmarshal(answer.Value, into); err != nil {
			b.Fatalf("%s %s: %v: %.600s", method, path, err, answer.Value)
		}
	}
}

func (b *browser) open(url string) {
	b.Helper()
	b.do(http.MethodPost, "/url", map[string]string{"url": url}, nil)
}

// eval is the value of an expression on the page.
func eval[V any](b *browser, expression string) (v V) {
	b.Helper()
	b.do(http.MethodPost, "/execute/sync", map[string]any{"script": "return " + expression, "args": []any{}}, &v)
	return v
}

// sees waits until the page has a text.
func (b *browser) sees(text string) {
	b.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var source string
		b.do(http.MethodGet, "/source", nil, &source)
		if strings.Contains(source, text) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the page never has %q:\n%.3000s", text, source)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// emulate sets how large the window is, and the colours that its user prefers.
func (b *browser) emulate(width, height int, scheme string) {
	b.Helper()
	for cmd, params := range map[string]map[string]any{
		"Emulation.setDeviceMetricsOverride": {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false},
		"Emulation.setEmulatedMedia":         {"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}},
	} {
		b.do(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": cmd, "params": params}, nil)
	}
}

// wantNoComplaints checks that the browser has none of the pages: errors of scripts, and what their policy forbids.
func (b *browser) wantNoComplaints() {
	b.Helper()
	var lines []struct{ Level, Message string }
	b.do(http.MethodPost, "/se/log", map[string]string{"type": "browser"}, &lines)
	for _, l := range lines {
		b.Errorf("the browser complains: %s: %s", l.Level, l.Message)
	}
}

func (b *browser) screenshot() []byte {
	b.Helper()
	var text string
	b.do(http.MethodGet, "/screenshot", nil, &text)
	png, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b.Fatal(err)
	}
	return png
}
