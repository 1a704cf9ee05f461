package config

import (
	_ "embed"
	"encoding/json"
	"time"
)

// DefaultYAML is the default configuration with every field explained.
//
//go:embed default.yaml
var DefaultYAML string

// Mode says what the controller does with its decisions.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Observe Mode = "observe"
)

// Config is the whole configuration of ebb-controller; default.yaml explains it.
type Config struct {
	Mode               Mode           `json:"mode"`
	Paused             bool           `json:"paused"`
	CircuitBreaker     CircuitBreaker `json:"circuitBreaker"`
	Envelope           Envelope       `json:"envelope"`
	CollectorEnvelope  Envelope       `json:"collectorEnvelope"`
	Exclude            Exclude        `json:"exclude"`
	OrphanWithout      []string       `json:"orphanWithout"`
	ForegroundPatience Duration       `json:"foregroundPatience"`
	AggregatedAbsence  Duration       `json:"aggregatedAbsence"`
	DiscoveryInterval  Duration       `json:"discoveryInterval"`
	Collectors         Collectors     `json:"collectors"`
	Concurrency        Concurrency    `json:"concurrency"`
	RequestTimeout     Duration       `json:"requestTimeout"`
	ShutdownGrace      Duration       `json:"shutdownGrace"`
	LeaderElection     LeaderElection `json:"leaderElection"`
	Server             Server         `json:"server"`
	Log                Log            `json:"log"`
}

// CircuitBreaker bounds the deletions within a window of time.
type CircuitBreaker struct {
	Deletions int      `json:"deletions"`
	Window    Duration `json:"window"`
}

// Envelope bounds the deletions of one cascade: a burst, and a rate after it.
type Envelope struct {
	Burst     int `json:"burst"`
	PerMinute int `json:"perMinute"`
}

// Exclude names the types and namespaces that ebb never acts on.
type Exclude struct {
	Types      []string `json:"types"`
	Namespaces []string `json:"namespaces"`
}

// Concurrency bounds the requests in flight.
type Concurrency struct {
	Start int `json:"start"`
	Max   int `json:"max"`
}

// LeaderElection says how one of several instances is chosen.
type LeaderElection struct {
	Enabled       bool     `json:"enabled"`
	Namespace     string   `json:"namespace"`
	Name          string   `json:"name"`
	LeaseDuration Duration `json:"leaseDuration"`
	RenewDeadline Duration `json:"renewDeadline"`
	RetryPeriod   Duration `json:"retryPeriod"`
}

// JournalName is the name of the journal of orphaned owners, in the same namespace.
func (l LeaderElection) JournalName() string { return l.Name + "-orphans" }

// Server configures the servers for metrics, pages and probes, and the admin socket.
type Server struct {
	Address       string `json:"address"`
	HealthAddress string `json:"healthAddress"`
	WebConfigFile string `json:"webConfigFile"`
	AdminSocket   string `json:"adminSocket"`
}

// Log configures logging.
type Log struct {
	Level  string `json:"level"`
	Format string `json:"format"`
}

// Default is the configuration that an empty file means.
func Default() Config {
	return Config{
		Mode:               Observe,
		CircuitBreaker:     CircuitBreaker{Deletions: 50000, Window: Duration(10 * time.Minute)},
		Envelope:           Envelope{Burst: 10000, PerMinute: 1200},
		CollectorEnvelope:  Envelope{Burst: 10000, PerMinute: 2400},
		Exclude:            Exclude{Types: []string{}, Namespaces: []string{}},
		OrphanWithout:      []string{"*.metrics.k8s.io", "*.custom.metrics.k8s.io", "*.external.metrics.k8s.io"},
		ForegroundPatience: Duration(time.Minute),
		AggregatedAbsence:  Duration(2 * time.Minute),
		DiscoveryInterval:  Duration(5 * time.Minute),
		Collectors:         defaultCollectors(),
		Concurrency:        Concurrency{Start: 16, Max: 32},
		RequestTimeout:     Duration(30 * time.Second),
		ShutdownGrace:      Duration(5 * time.Second),
		LeaderElection: LeaderElection{
			Enabled: true, Namespace: "ebb-system", Name: "ebb-controller",
			LeaseDuration: Duration(15 * time.Second), RenewDeadline: Duration(10 * time.Second), RetryPeriod: Duration(2 * time.Second),
		},
		Server: Server{Address: "127.0.0.1:9479", AdminSocket: "/run/ebb/controller.sock"},
		Log:    Log{Level: "info", Format: "json"},
	}
}

// Duration is a time.Duration written as Go and Kubernetes write it: "12h45m".
type Duration time.Duration

// String formats d as UnmarshalJSON parses it.
func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalJSON accepts a string such as "90s". It refuses a number, which has no unit.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	parsed, err := time.Duration(0), json.Unmarshal(data, &s)
	if err == nil {
		parsed, err = time.ParseDuration(s)
	}
	if err != nil {
		return &durationError{string(data[:min(len(data), 60)])}
	}
	*d = Duration(parsed)
	return nil
}

type durationError struct{ got string }

func (e *durationError) Error() string {
	return `want a duration such as "90s" or "12h45m", got ` + e.got
}
