"""rhino: navigation for the Unitree Go2 on Ray actors. Start reading at `wiring.py`.

cli          the `rhino` command
main         deploy: config -> Ray -> wiring -> Serve -> supervise -> clean end
run_record   what other commands know of a deployment, and how they end it
ray_cluster  the Ray cluster that it runs on
wiring       the graph: every actor, its name, resources, placement and handles
actors       thin Ray actors, one class each
peer         a simulated Go2 on the network that speaks the robot's own protocol
drivers      the robot behind one `Platform` protocol: fake, MuJoCo, the real Go2
mapping      occupancy grid, ray casting, inflation        (pure)
planning     search, goals, paths, progress                (pure)
control      motion gate, path follower, collision monitor (pure)
exploration  frontiers and the choice among them           (pure)
storage      SQLite
viz          every Rerun call
config, messages, geometry, errors: what all of them share
"""
