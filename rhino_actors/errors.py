"""Every error that rhino raises on purpose: a code for programs, a sentence and a hint for people.

Errors cross actor boundaries as `cls(*args)`, so every constructor takes its fields positionally and passes
them all to `Exception.__init__`. An error raised in an actor arrives as a `RayTaskError` that is an instance of
the original class too; its fields are on `.cause` (see `original`).
"""


class RhinoError(Exception):
    """Base of all errors that rhino raises on purpose.

    Attributes:
        code: stable upper-case name for programs; part of the REST and MCP contract.
        message: one sentence that says what is wrong.
        hint: one sentence that says what to do.
    """

    code = "RHINO_ERROR"
    default_message = "Something went wrong."
    default_hint = "See the log: rhino logs."

    def __init__(self, message: str = "", hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message or self.default_message
        self.hint = hint or self.default_hint

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.hint}"


def original(error: BaseException) -> BaseException:
    """Return the error as it was raised: what a Ray task error carries as its cause, else the error itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(error, RhinoError) and isinstance(cause, BaseException) else error


class ConfigError(RhinoError):
    """A configuration file or value that cannot be used."""

    code = "CONFIG_INVALID"
    default_message = "The configuration cannot be used."
    default_hint = "docs/configuration.md lists every key with its unit and default."


class DeployError(RhinoError):
    """`rhino deploy` cannot start, or what it started did not come up."""

    code = "DEPLOY_FAILED"
    default_message = "The deployment did not start."
    default_hint = "See the log: rhino logs."


class AlreadyRunning(DeployError):
    code = "ALREADY_RUNNING"
    default_message = "A rhino deployment runs already."
    default_hint = "rhino status shows it; rhino down stops it."


class NotRunning(DeployError):
    code = "NOT_RUNNING"
    default_message = "No rhino deployment runs here."
    default_hint = "Start one: rhino deploy sim."


class PortTaken(DeployError):
    code = "PORT_TAKEN"
    default_message = "The API port is taken by another program."
    default_hint = "Choose another: RHINO_PORT=8001 rhino deploy sim, or server.port in the config."


class ActorUnavailable(RhinoError):
    """An actor is restarting, or did not answer in time. Nothing was changed that the caller can rely on."""

    code = "ACTOR_UNAVAILABLE"
    default_message = "A part of rhino is restarting."
    default_hint = "Try again in a few seconds; rhino status names the part."


class ActorTimedOut(ActorUnavailable):
    """An actor did not answer in time. What was asked for may still happen."""

    code = "TIMEOUT"
    default_message = "A part of rhino did not answer in time."


class RobotNotFound(RhinoError):
    code = "ROBOT_NOT_FOUND"
    default_message = "There is no robot of that name."
    default_hint = "GET /api/robots lists them."


class InvalidRequest(RhinoError):
    """A value that a client sent cannot be used: not finite, missing, of the wrong kind."""

    code = "INVALID_REQUEST"
    default_message = "The request has a value that cannot be used."
    default_hint = "Numbers must be finite and in SI units: m, s, rad."


class NotAvailable(RhinoError):
    """What was asked for does not exist yet: no map before the first scan, no picture before the first frame."""

    code = "NOT_AVAILABLE"
    default_message = "There is nothing to answer yet."
    default_hint = "Wait for the sensor, then ask again."


# the robot


class PlatformError(RhinoError):
    """The robot, or its simulation, cannot do what was asked."""

    code = "PLATFORM_ERROR"
    default_message = "The robot cannot do that."


class NotConnected(PlatformError):
    code = "NOT_CONNECTED"
    default_message = "The robot is not connected."
    default_hint = "rhino status shows the link; rhino logs the reason."


class RobotUnreachable(NotConnected):
    """Nothing answers at the robot's address, or no service that connects clients."""

    code = "ROBOT_UNREACHABLE"
    default_message = "No robot answers at that address."
    default_hint = "rhino discover finds robots on the network; rhino doctor says what is wrong."


class RobotBusy(NotConnected):
    code = "ROBOT_BUSY"
    default_message = "Another app is connected to the robot, and it serves one at a time."
    default_hint = "Close the app on the phone and other programs; rhino tries again by itself."


class RobotKeyMissing(NotConnected):
    code = "ROBOT_KEY_MISSING"
    default_message = "The robot's firmware asks for its own AES-128 key, and none is configured."
    default_hint = (
        "Put its 32 hexadecimal digits into RHINO_GO2_AES_KEY or go2.aes_key; docs/real-robot.md."
    )


class RobotKeyRejected(NotConnected):
    code = "ROBOT_KEY_REJECTED"
    default_message = "The AES-128 key is not this robot's."
    default_hint = "Each robot has a key of its own: read it again; docs/real-robot.md says how."


class SignallingFailed(NotConnected):
    code = "SIGNALLING_FAILED"
    default_message = "The robot's connection service gave an answer that rhino does not know."
    default_hint = "The firmware may be newer than rhino: rhino doctor shows what it answered."


class ChannelNotOpened(NotConnected):
    """The robot answered, but the connection did not come about; the message names the layer that stalled."""

    code = "CHANNEL_NOT_OPENED"
    default_message = "The connection to the robot did not come about in time."
    default_hint = "Wait 20 s and try again; when it stays so, restart the robot."


class CommandRejected(PlatformError):
    code = "COMMAND_REJECTED"
    default_message = "The robot refused the command."
    default_hint = "GET /api/state shows posture and mode; some commands need a standing robot."


class UnknownCommand(PlatformError):
    code = "UNKNOWN_COMMAND"
    default_message = "There is no such sport command."
    default_hint = "The hint of the error names those that exist."


class NotSimulated(PlatformError):
    """Faults were asked of a robot that cannot have them on demand."""

    code = "NOT_A_SIMULATION"
    default_message = "This robot cannot have faults on demand."
    default_hint = "Only the MuJoCo simulation can: rhino deploy sim."


class NotEquipped(PlatformError):
    """A light, speaker or switch was asked of a robot that has none."""

    code = "NOT_EQUIPPED"
    default_message = "This robot has no such device."
    default_hint = "The real Go2 has: rhino deploy go2."


class InvalidFault(InvalidRequest):
    """No such fault or number, one that this body cannot have, or too many."""

    code = "FAULT_INVALID"
    default_message = "There is no such fault."
    default_hint = "rhino fault list shows them with their numbers."


class LidarDecodeError(PlatformError):
    """A lidar message that cannot be one of the robot's, or is damaged."""

    code = "LIDAR_DECODE_FAILED"
    default_message = "The lidar message cannot be decoded."
    default_hint = "The frame is dropped; if all are, the firmware may send another format."


# who may move it


class ControlError(RhinoError):
    """A request to move that MotionGate does not let through."""

    code = "CONTROL_REFUSED"
    default_message = "The robot may not be moved now."


class ControlHeld(ControlError):
    """Somebody else drives. `holder` is the name to show."""

    code = "CONTROL_HELD"
    default_message = "Somebody else drives the robot."
    default_hint = "POST /api/control/take takes over; anyone may stop: POST /api/stop."

    def __init__(self, message: str = "", hint: str = "", holder: str = "") -> None:
        super().__init__(message, hint)
        self.args = (message, hint, holder)
        self.holder = holder


class NotHolder(ControlError):
    """A lease that is to be kept is gone: it ran out, was given back, or a stop ended it."""

    code = "NOT_HOLDER"
    default_message = "You do not drive the robot any more."
    default_hint = "Take it again: POST /api/control/take, or send a velocity."


class EStopLatched(ControlError):
    code = "ESTOP_LATCHED"
    default_message = "The emergency stop is latched."
    default_hint = "Look at the robot, then clear it: rhino estop --clear or POST /api/estop/clear."


class RobotFallen(ControlError):
    code = "FALLEN"
    default_message = "The robot has fallen."
    default_hint = "Help it up: POST /api/cmd/RecoveryStand; nothing resumes by itself."


class SupersededRequest(ControlError):
    """A path or goal that belongs to an earlier decision: someone stopped or took over since."""

    code = "SUPERSEDED"
    default_message = "Someone stopped the robot or took over since this was asked for."
    default_hint = "Ask again if it is still wanted."


# planning


class PlanningError(RhinoError):
    """No path can be given."""

    code = "PLANNING_FAILED"
    default_message = "No path can be planned."


class NoMap(PlanningError):
    code = "NO_MAP"
    default_message = "There is no map yet."
    default_hint = "Wait for the first lidar scan: GET /api/state shows its age."


class StartOccupied(PlanningError):
    code = "START_OCCUPIED"
    default_message = "The robot stands inside an obstacle of the map."
    default_hint = "Drive it out by hand, or wait until the map clears."


class GoalOccupied(PlanningError):
    code = "GOAL_OCCUPIED"
    default_message = "The goal is inside an obstacle or too near one."
    default_hint = (
        "Choose a goal with clear floor around it, or leave out strict so that a near one is taken."
    )


class StartOutsideMap(PlanningError):
    code = "START_OUTSIDE_MAP"
    default_message = "The robot is outside the map."
    default_hint = "Wait for the map to grow to the robot."


class GoalOutsideMap(PlanningError):
    code = "GOAL_OUTSIDE_MAP"
    default_message = "The goal is outside the map."
    default_hint = "Choose a goal inside the map, or explore in its direction first."


class NoPath(PlanningError):
    code = "NO_VALID_PATH"
    default_message = "No way leads from the robot to the goal."
    default_hint = (
        "Look at the costmap: a closed door or a gap narrower than the robot blocks the way."
    )


class PlanTimedOut(PlanningError):
    code = "PLAN_TIMED_OUT"
    default_message = "Planning took too long."
    default_hint = "Raise planner.timeout_s, or choose a nearer goal."


class PlanCancelled(PlanningError):
    code = "PLAN_CANCELLED"
    default_message = "The plan was cancelled while it was being made."
    default_hint = "Plan again if the goal still stands."


class BackendUnavailable(PlanningError):
    code = "BACKEND_UNAVAILABLE"
    default_message = "This installation has no CUDA planner."
    default_hint = "Use backend='cpu', or 'auto', which takes the fastest that is there."


class NotLocalised(PlanningError):
    """A map was loaded and the robot's place in it is not known, so no way in it can be driven."""

    code = "NOT_LOCALISED"
    default_message = "The robot does not know its place in the loaded map."
    default_hint = "Drive or turn it by hand until it does, or load the map with its rough pose."


class NoGoal(PlanningError):
    code = "NO_GOAL"
    default_message = "There is no goal to cancel."
    default_hint = "GET /api/navigate/status shows what runs."


class FailedToMakeProgress(PlanningError):
    code = "FAILED_TO_MAKE_PROGRESS"
    default_message = "The robot does not get nearer to its goal."
    default_hint = "Something it cannot see may hold it; look at the robot."


# missions


class MissionError(RhinoError):
    """A mission (explore, patrol) cannot start or go on."""

    code = "MISSION_REFUSED"
    default_message = "The mission cannot start."


class MissionRunning(MissionError):
    code = "MISSION_RUNNING"
    default_message = "A mission runs already."
    default_hint = "Stop it first: POST /api/explore/stop, or /api/patrol/stop."


class NoMission(MissionError):
    code = "NO_MISSION"
    default_message = "No mission runs."
    default_hint = "GET /api/state shows the last one and how it ended."


# storage


class StorageError(RhinoError):
    """The database cannot do what was asked; nothing was changed."""

    code = "STORAGE_ERROR"
    default_message = "The database cannot do that."


class PoiNotFound(StorageError):
    code = "POI_NOT_FOUND"
    default_message = "There is no such point of interest."
    default_hint = "GET /api/pois lists them."


class PoiListChanged(StorageError):
    """An order was given that does not name each place of the robot."""

    code = "POI_LIST_CHANGED"
    default_message = "The order does not name each place once."
    default_hint = "List the places again: GET /api/pois; give the ids of all of them."


class PoiFileInvalid(StorageError):
    """A file of places that cannot be read, or that names what is not there. Nothing was taken over."""

    code = "POI_FILE_INVALID"
    default_message = "The file is no list of places that rhino can read."
    default_hint = "GET /api/pois/export shows what such a file looks like."


class InvalidLabel(StorageError):
    code = "INVALID_LABEL"
    default_message = "The label cannot be used."
    default_hint = "A label has 1 to 200 characters and is not only white space."


class MapFileInvalid(StorageError):
    """Files that are not a map: damaged, of another kind, or made to do harm. Nothing was taken over."""

    code = "MAP_FILE_INVALID"
    default_message = "The files are not a map that rhino can read."
    default_hint = (
        "A map is a map_server .yaml with its .pgm image; docs/maps.md says what is read."
    )


class MapTooLarge(MapFileInvalid):
    code = "MAP_TOO_LARGE"
    default_message = "The map is larger than rhino takes."
    default_hint = "Crop the map, or save it with a coarser resolution."


class MapNotFound(StorageError):
    code = "MAP_NOT_FOUND"
    default_message = "There is no such saved map."
    default_hint = "GET /api/maps or rhino map list shows them."


class MapNameTaken(StorageError):
    code = "MAP_NAME_TAKEN"
    default_message = "Another saved map has this name."
    default_hint = "Choose another name, or rename or delete the other map first."


class MissionNotFound(StorageError):
    code = "MISSION_NOT_FOUND"
    default_message = "There is no such mission in the log."
    default_hint = "GET /api/missions or rhino missions lists them."


class MapInUse(StorageError):
    """Places lie on the map, and no other saved map has its coordinates."""

    code = "MAP_IN_USE"
    default_message = "Places lie on this map."
    default_hint = "Delete it with force, which deletes its places too: rhino map delete --force."


class MapNotLoaded(ControlError):
    """A place of a saved map whose coordinates are not those of the running one."""

    code = "MAP_NOT_LOADED"
    default_message = "The place lies on a saved map that is not loaded."
    default_hint = "Load the map first: rhino map load, or POST /api/maps/{id}/load."


class RobotMoves(ControlError):
    code = "ROBOT_MOVES"
    default_message = "The robot does not stand still, so its place on the map cannot be set."
    default_hint = "Wait until it stands, and keep others from driving it; then try again."
