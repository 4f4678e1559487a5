"""What REST takes and answers: the forms that callers send, and the answers that they get; a module for each family.

The client and the command line read the same models, so that all three say the same.
"""

from manager.answers.administration import (
    BrokerCredentials,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    Quota,
    Role,
    SecretAnswer,
    SecretForm,
    TenantAnswer,
    TenantForm,
)
from manager.answers.base import (
    FieldProblem,
    Page,
    ProblemAnswer,
    SecretName,
    SourceName,
    TenantName,
)
from manager.answers.dataflows import (
    Basis,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    ExplainAnswer,
    OutputAnswer,
    Saving,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
)
from manager.answers.dead_letters import (
    DeadLetterAnswer,
    Discarded,
    Replayed,
)
from manager.answers.defragmenting import FragmentationAnswer, MoveAnswer
from manager.answers.journal import (
    EventAnswer,
    OperationAnswer,
    OperationKind,
)
from manager.answers.running import (
    HostAnswer,
    JobAnswer,
    RunningDagAnswer,
    RunningTaskAnswer,
    StreamAnswer,
)
from manager.answers.sources import (
    Connection,
    RateConnection,
    ReplayConnection,
    SourceAnswer,
    SourceForm,
    Stopped,
    TimerConnection,
    TopicConnection,
    VisibilityForm,
)

__all__ = [
    "Basis",
    "BrokerCredentials",
    "Connection",
    "DataflowAnswer",
    "DataflowDetail",
    "DataflowState",
    "DeadLetterAnswer",
    "Discarded",
    "EventAnswer",
    "ExplainAnswer",
    "FieldProblem",
    "FragmentationAnswer",
    "HostAnswer",
    "JobAnswer",
    "KeyAnswer",
    "KeyForm",
    "MoveAnswer",
    "NewKeyAnswer",
    "OperationAnswer",
    "OperationKind",
    "OutputAnswer",
    "Page",
    "ProblemAnswer",
    "Quota",
    "RateConnection",
    "ReplayConnection",
    "Replayed",
    "Role",
    "RunningDagAnswer",
    "RunningTaskAnswer",
    "Saving",
    "SecretAnswer",
    "SecretForm",
    "SecretName",
    "SourceAnswer",
    "SourceForm",
    "SourceName",
    "Start",
    "Stop",
    "Stopped",
    "StreamAnswer",
    "SubmitAnswer",
    "TaskAnswer",
    "TenantAnswer",
    "TenantForm",
    "TenantName",
    "TimerConnection",
    "TopicConnection",
    "VisibilityForm",
]
