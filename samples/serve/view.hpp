// A view of the server in a terminal, drawn over itself; a line now and then elsewhere.
#pragma once

#include "schedule/server.hpp"

#include <string>

namespace serve {

class View {
  public:
    // Draws to stderr.
    explicit View(bool quiet);
    void show(const Server &server, size_t requests);
    // Leaves what was drawn last, and goes on below.
    void end();

  private:
    bool quiet_, terminal_;
    double next_ = 0; // seconds of the server
    int lines_ = 0;
};

// The lines of the view: a bar for each slot, the pages, and what has happened.
[[nodiscard]] std::string drawing(const Server &server, size_t requests);

} // namespace serve
