(define (domain braid)
  (:requirements :adl :action-costs)
  (:types place variable value vertex option port stage)
  (:constants
    out__street__out out___4c_ane__out out__clean__out in__join__in out__join__out - place
    variable__noise variable__kind - variable
    text__float text__high text__low json__null - value
    vertex__clean vertex__join - vertex
    option__smooth_40_1 option__join - option
    port__in - port
    ready entered filled settled - stage)
  (:predicates
    (is ?p - place ?x - variable ?v - value)
    (may ?x - variable ?v - value)
    (type ?x - variable)
    (reads ?w - vertex ?q - port ?p - place)
    (emits ?w - vertex ?p - place)
    (enters ?p ?m - place)
    (now ?w - vertex ?s - stage)
    (met ?m - place)
    (mixed ?m - place ?x - variable)
    (holds ?w - vertex ?o - option)
    (open ?p - place ?x - variable)
    (done))
  (:functions (total-cost) - number)
  (:action take
    :parameters (?p ?m - place ?x - variable ?v - value)
    :precondition (and (mixed ?m ?x) (enters ?p ?m) (is ?p ?x ?v))
    :effect (and (is ?m ?x ?v) (not (mixed ?m ?x))))
  (:action choose
    :parameters (?p - place ?x - variable ?v - value)
    :precondition (and (open ?p ?x) (may ?x ?v))
    :effect (and (is ?p ?x ?v) (not (open ?p ?x))))
  (:action enter__clean
    :parameters ()
    :precondition (and
      (now vertex__clean ready))
    :effect (and
      (not (now vertex__clean ready))
      (now vertex__clean entered)))
  (:action fill__clean__smooth_40_1
    :parameters ()
    :precondition (and
      (now vertex__clean entered)
      (is out__street__out variable__kind text__float))
    :effect (and
      (not (now vertex__clean entered))
      (now vertex__clean filled)
      (holds vertex__clean option__smooth_40_1)
      (forall (?v - value) (when (is out__street__out variable__kind ?v) (is out__clean__out variable__kind ?v)))
      (open out__clean__out variable__noise)
      (increase (total-cost) 5)))
  (:action settle__clean__smooth_40_1
    :parameters ()
    :precondition (and
      (now vertex__clean filled)
      (holds vertex__clean option__smooth_40_1)
      (not (open out__clean__out variable__noise))
      (not (is out__clean__out variable__noise json__null)))
    :effect (and
      (not (now vertex__clean filled))
      (now vertex__clean settled)))
  (:action leave__clean
    :parameters ()
    :precondition (and
      (now vertex__clean settled))
    :effect (and
      (not (now vertex__clean settled))
      (now vertex__join ready)))
  (:action meet__join__in
    :parameters ()
    :precondition (and
      (now vertex__join ready)
      (not (met in__join__in))
      (exists (?v - value) (and (is out__clean__out variable__kind ?v) (is out___4c_ane__out variable__kind ?v))))
    :effect (and
      (met in__join__in)
      (forall (?v - value) (when (is out__clean__out variable__kind ?v) (is in__join__in variable__kind ?v)))
      (mixed in__join__in variable__noise)))
  (:action enter__join
    :parameters ()
    :precondition (and
      (now vertex__join ready)
      (met in__join__in)
      (not (mixed in__join__in variable__noise)))
    :effect (and
      (not (now vertex__join ready))
      (now vertex__join entered)))
  (:action fill__join__join
    :parameters ()
    :precondition (and
      (now vertex__join entered))
    :effect (and
      (not (now vertex__join entered))
      (now vertex__join filled)
      (holds vertex__join option__join)
      (forall (?v - value) (when (is in__join__in variable__noise ?v) (is out__join__out variable__noise ?v)))
      (forall (?v - value) (when (is in__join__in variable__kind ?v) (is out__join__out variable__kind ?v)))))
  (:action settle__join__join
    :parameters ()
    :precondition (and
      (now vertex__join filled)
      (holds vertex__join option__join))
    :effect (and
      (not (now vertex__join filled))
      (now vertex__join settled)))
  (:action leave__join
    :parameters ()
    :precondition (and
      (now vertex__join settled))
    :effect (and
      (not (now vertex__join settled))
      (done)))
)
