-- wrk's part: sends the requests of the file BENCH_REQUESTS in turn, whole as they stand there, a zero byte between them; each thread to one of the
-- addresses of BENCH_ADDRESSES, "host:port" separated by commas. What was measured is one line of JSON, the last of the output.
local threads = 0

function setup(thread)
  local addresses = {}
  for host, port in os.getenv("BENCH_ADDRESSES"):gmatch("([^:,]+):(%d+)") do addresses[#addresses + 1] = { host, port } end
  local address = addresses[threads % #addresses + 1]
  threads = threads + 1
  thread.addr = wrk.lookup(address[1], address[2])[1]
end

local requests, place = {}, 0

function init()
  local file = assert(io.open(os.getenv("BENCH_REQUESTS"), "rb"))
  for text in file:read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = text end
  file:close()
end

function request()
  place = place % #requests + 1
  return requests[place]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"seconds":%f,"p50Ms":%f,"p99Ms":%f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout
  ))
end
