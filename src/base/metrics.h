#pragma once
// Counters, gauges and histograms in Prometheus' terms. Recording: any thread, no lock, no
// allocation for counters and gauges; a histogram takes a short lock of its own. Registering takes
// a lock: do it once, keep the reference. Names: millrace_<what>_<unit>, counters end in _total.

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace millrace {

using MetricLabels = std::map<std::string, std::string>;

class Counter {
 public:
  explicit Counter(prometheus::Counter& counter) : counter_(counter) {}
  void add(double amount = 1);
  double value() const;

 private:
  prometheus::Counter& counter_;
};

class Gauge {
 public:
  explicit Gauge(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void set(double value);
  double value() const;

 private:
  prometheus::Gauge& gauge_;
};

class Histogram {
 public:
  explicit Histogram(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void observe(double value);

 private:
  prometheus::Histogram& histogram_;
};

// Upper bounds first, first * factor, ... n of them; +Inf is implied.
std::vector<double> exponential_buckets(double first, double factor, int n);

// The registry of one server. References stay valid as long as it lives. Asking again for the same
// name and labels gives the same series.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  Counter counter(const std::string& name,
                  const std::string& help,
                  const MetricLabels& labels = {});
  Gauge gauge(const std::string& name, const std::string& help, const MetricLabels& labels = {});
  Histogram histogram(const std::string& name,
                      const std::string& help,
                      const std::vector<double>& buckets,
                      const MetricLabels& labels = {});

  // The text exposition format, version 0.0.4.
  std::string expose() const;

 private:
  struct Registry;
  std::unique_ptr<Registry> registry_;
};

}  // namespace millrace
