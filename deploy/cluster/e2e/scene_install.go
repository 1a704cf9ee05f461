package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

const agentURL = "http://127.0.0.1:9478"

// install does what README says: the image, the manifests, a look; then enforce.
func (b *bed) install() error {
	b.notes.command("ctr --namespace k8s.io images import bin/image/ebb.tar")
	if err := b.provision("--images", b.o.image, "--images", filepath.Join(b.o.out, "next.tar"), "images"); err != nil {
		return err
	}
	var err error
	if b.before, err = b.lookAround(); err != nil {
		return err
	}
	b.notes.command("kubectl apply --server-side --filename deploy/manifests")
	if err := b.provision("--manifests", "deploy/manifests", "ebb"); err != nil {
		return err
	}
	if err := b.ready(); err != nil {
		return err
	}
	images, err := b.images()
	if err != nil {
		return err
	}
	if images.Mode != "observe" {
		return fmt.Errorf("the agent's mode is %q", images.Mode)
	}
	b.notes.ok("agent and controller are ready, from the image %s, in mode observe", repository)
	b.notes.ok("%d images are known; the disk is %d %% full, its lines are %d and %d %%",
		len(images.Images), images.UsedPercent, images.HighPercent, images.LowPercent)
	return b.probes()
}

// probes asks what is in the kernel, from the agent's own container.
func (b *bed) probes() error {
	args := []string{"--namespace", namespace, "exec", "daemonset/ebb-agent", "--", "/usr/bin/ebb-agent", "--probe-report"}
	b.notes.command("kubectl " + strings.Join(args, " "))
	report, err := b.kubectl(args...)
	if err != nil {
		return err
	}
	if !strings.Contains(report, "lastuse") || !strings.Contains(report, "ext4") {
		return fmt.Errorf("the report of the kernel programs: %s", report)
	}
	b.notes.ok("its programs are in the kernel, loaded by a container that is not privileged")
	return nil
}

func (b *bed) ready() error {
	for _, workload := range []string{"daemonset/ebb-agent", "deployment/ebb-controller"} {
		if err := b.rollout(workload); err != nil {
			return err
		}
	}
	return nil
}

// enforce lets it act. An image's age counts in seconds here, so that the play need
// not wait for the default of two minutes.
func (b *bed) enforce() error {
	args := []string{
		"template", "ebb", "deploy/chart", "--namespace", namespace,
		"--set", "agent.mode=enforce", "--set", "controller.mode=enforce",
	}
	b.notes.command("helm " + strings.Join(args, " ") + " | kubectl apply --server-side --filename -")
	rendered, err := b.run(b.o.helm, append(args, "--no-hooks", "--set", "agent.config.images.imageMinimumGCAge=5s")...)
	if err != nil {
		return err
	}
	if err := b.apply(rendered); err != nil {
		return err
	}
	if err := b.ready(); err != nil {
		return err
	}
	images, err := b.images()
	if err != nil {
		return err
	}
	if images.Mode != "enforce" {
		return fmt.Errorf("the agent's mode is %q", images.Mode)
	}
	b.notes.ok("both were replaced, and enforce")
	return nil
}

// explanation is what is needed of the agent's /images.
type explanation struct {
	Mode                                 string
	UsedPercent, HighPercent, LowPercent int
	Images                               []struct {
		References []string
		Verdict    string
		Reason     string
		LastUsed   *time.Time
	}
}

// has tells whether the agent knows an image by that name.
func (e explanation) has(name string) bool { return e.lastUsed(name, func(*time.Time) {}) }

func (e explanation) lastUsed(name string, visit func(*time.Time)) bool {
	for _, image := range e.Images {
		for _, reference := range image.References {
			if reference == name {
				visit(image.LastUsed)
				return true
			}
		}
	}
	return false
}

func (b *bed) images() (explanation, error) {
	var e explanation
	return e, b.ask(agentURL+"/images", &e)
}

// ask reads JSON, or text if out is a *string.
func (b *bed) ask(url string, out any) error {
	req, err := http.NewRequestWithContext(b, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := plain.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 16*mib))
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, resp.Status, tail(string(data)))
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode %s: %w", url, err)
	}
	return nil
}

// plain makes a connection for each request: servers come and go here.
var plain = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
