package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module with one test file, whose tests fail by how often they ran before.
func module(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"m_test.go": `package m
import ("os"; "path/filepath"; "testing")
// ran is how often it was called before.
func ran(t *testing.T) int {
	name := filepath.Join(os.Getenv("RAN"), filepath.Base(t.Name()))
	b, _ := os.ReadFile(name)
	os.WriteFile(name, append(b, '.'), 0o644)
	return len(b)
}
` + body,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("RAN", t.TempDir())
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("EBB_RECORD", filepath.Join(dir, "record.tsv"))
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := gate(t.Context(), args, &out)
	t.Log(out.String())
	return out.String(), err
}

func TestSecondLook(t *testing.T) {
	const onceRed = `if ran(t) == 0 { t.Fatal("the first time") }`
	for _, c := range []struct{ name, body, red, flake string }{
		{"green", `func TestA(t *testing.T) {}`, "", ""},
		{"flake", `func TestA(t *testing.T) { ` + onceRed + ` }; func TestB(t *testing.T) {}`, "", "FLAKE m TestA"},
		{"flake below", `func TestA(t *testing.T) { t.Run("x/y", func(t *testing.T) { ` + onceRed + ` }) }`, "", "FLAKE m TestA"},
		{"one of three", `func TestA(t *testing.T) { if ran(t) != 1 { t.Fatal("two of three") } }`, "m TestA", ""},
		{"always", `func TestA(t *testing.T) { t.Fatal("wrong") }`, "m TestA", ""},
		{"three at once", `func TestA(t *testing.T) { ` + onceRed + ` }; func TestB(t *testing.T) { ` + onceRed + ` }; func TestC(t *testing.T) { ` + onceRed + ` }`, "m TestA", ""},
		{"panic", `func TestA(t *testing.T) { if ran(t) == 0 { panic("once") } }`, "m TestA", ""},
		{"race", `func TestA(t *testing.T) { if ran(t) == 0 { x, done := 0, make(chan int); go func() { x++; close(done) }(); x++; <-done } }`, "m TestA", ""},
		{"marked", `func TestA(t *testing.T) { if ran(t) == 0 { t.Error("FINAL: an image in use was removed") } }`, "m TestA", ""},
		{"main", `func TestA(t *testing.T) {}; func TestMain(m *testing.M) { m.Run(); os.Exit(1) }`, "m", ""},
		{"build", `func TestA(t *testing.T) { nothing }`, "m", ""},
		{"timeout", `func TestA(t *testing.T) { if ran(t) == 0 { select {} } }; func TestB(t *testing.T) {}`, "m", ""},
		{"skipped then", `func TestA(t *testing.T) { if ran(t) == 0 { t.Fatal("no") }; t.Skip() }`, "m TestA", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, c.body)
			flag := "-timeout=1m"
			switch c.name {
			case "race":
				flag = "-race"
			case "timeout":
				flag = "-timeout=1s"
			}
			out, err := run(t, "test", "-second-look", "stage", flag, "--", "./...")
			if (err != nil) != (c.red != "") || !strings.Contains(out, "gate: red: "+c.red) && c.red != "" {
				t.Errorf("%v, want red: %q", err, c.red)
			}
			out, err = run(t, "report")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out, "FLAKE") != (c.flake != "") || !strings.Contains(out, c.flake) || strings.Contains(out, "RED") != (c.red != "") {
				t.Errorf("want %q", c.flake)
			}
		})
	}
}

func TestNoSecondLookUnasked(t *testing.T) {
	module(t, `func TestA(t *testing.T) { if ran(t) == 0 { t.Fatal("once") } }`)
	if _, err := run(t, "test", "stage", "--", "."); err == nil {
		t.Error("green")
	}
}

// Two flakes in a run are forgiven, whatever stage they are of.
func TestFlakesOfARun(t *testing.T) {
	module(t, `func TestA(t *testing.T) { if ran(t)%3 == 0 { t.Fatal("one of three") } }`)
	for i, green := range []bool{true, true, false} {
		if _, err := run(t, "test", "-second-look", "stage", "-count=1", "--", "."); (err == nil) != green {
			t.Errorf("run %d: %v", i, err)
		}
	}
}

func TestSelection(t *testing.T) {
	module(t, `func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Fatal("wrong") }; func TestC(t *testing.T) { t.Skip("no") }`)
	t.Cleanup(func(old string) func() { return func() { skipsList = old } }(skipsList))
	skipsList = "m.TestC needs what is not here\n"
	out, err := run(t, "test", "-run", "TestA|TestB|TestC", "-skip", "TestB", "stage", "--", ".")
	if err != nil || !strings.Contains(out, "1 passed, 0 failed, 1 skipped") || !strings.Contains(out, "skipped: m TestC") {
		t.Error(err)
	}
	skipsList = "# m.TestC\n"
	if out, err = run(t, "test", "-skip", "TestB", "stage", "--", "."); os.Geteuid() == 0 && (err == nil || !strings.Contains(out, "red: m.TestC was skipped")) {
		t.Error("a test that is not in the list was skipped")
	}
}

// The gate prints the output of all runs of a flaky test, also of those that passed.
func TestFlakesSayAll(t *testing.T) {
	module(t, `func TestA(t *testing.T) { n := ran(t); t.Log("run", n); if n == 0 { t.Fatal("the first time") } }`)
	out, err := run(t, "test", "-second-look", "stage", "--", ".")
	for _, want := range []string{"run 0", "run 1", "run 2"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, without %q", err, want)
		}
	}
}

func TestHunt(t *testing.T) {
	module(t, `func TestA(t *testing.T) { if ran(t)%3 == 0 { t.Fatal("one of three") } }; func TestB(t *testing.T) {}`)
	out, err := run(t, "hunt", "9", "--", ".")
	if err == nil || !strings.Contains(out, "m TestA failed 3 of 9") || !strings.Contains(out, "m TestB failed 0 of 9") {
		t.Error(err)
	}
	if _, err := run(t, "hunt", "-run", "TestB", "9", "--", "."); err != nil {
		t.Error(err)
	}
}

func TestFlakesOfAFortnight(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	for list, red := range map[string]bool{
		"": false,
		"2026-11-12\tc\tp.T\tx\n2026-11-13\tc\tp.T\tx\n2026-11-24\tc\tp.U\tx": false,
		"2026-11-12\tc\tp.T\tx\n2026-11-13\tc\tp.T\tx\n2026-11-24\tc\tp.T\tx": true,
		"2026-11-10\tc\tp.T\tx\n2026-11-13\tc\tp.T\tx\n2026-11-24\tc\tp.T\tx": false,
		"yesterday\tc\tp.T\tx": true,
		"2026-11-24\tp.T":      true,
	} {
		if err := checkFlakes(list, now); (err != nil) != red {
			t.Errorf("%q: %v", list, err)
		}
	}
	if err := checkFlakes(flakesList, time.Now()); err != nil {
		t.Log(err) // a date must refuse no change; make test-full does
	}
}

func TestCommands(t *testing.T) {
	module(t, "")
	if _, err := run(t, "run", "image", "true"); err != nil {
		t.Error(err)
	}
	if _, err := run(t, "run", "demo", "false"); err == nil {
		t.Error("false is green")
	}
	out, err := run(t, "report")
	if err != nil || !strings.HasSuffix(out, "\n0 passed, 0 failed, 0 skipped\n") {
		t.Error(err)
	}
	for _, args := range [][]string{nil, {"x"}, {"run", "stage"}, {"test"}, {"test", "stage"}, {"hunt", "--", "."}, {"hunt", "0", "--", "."}, {"test", "stage", "--"}, {"test", "-no", "stage", "--", "."}} {
		if _, err := run(t, args...); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestDryRun(t *testing.T) {
	for flags, dry := range map[string]bool{
		"": false, "n": true, "kn": true, "n --no-print-directory -- ONLY=soak": true,
		" --no-print-directory": false, "--no-print-directory": false, " -- ONLY=fuzz": false, "ONLY=fuzz": false, "s -j2": false,
	} {
		if dryRun(flags) != dry {
			t.Errorf("%q: %v", flags, !dry)
		}
	}
	module(t, "")
	t.Setenv("MAKEFLAGS", "n")
	if out, err := run(t, "run", "demo", "false"); err != nil || out != "gate run demo false\n" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Stat("record.tsv"); err == nil {
		t.Error("nothing ran, and there is a record")
	}
}

func TestForeignRecord(t *testing.T) {
	module(t, "")
	if err := os.WriteFile("record.tsv", []byte("something\nelse\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "report"); err == nil || !strings.Contains(err.Error(), "record.tsv:1") {
		t.Error(err)
	}
}
